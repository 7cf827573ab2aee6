"""A numba of another version: it refuses to compile every loop, and the cache holds none."""

from pathlib import Path

import pytest

from hvdprof.ingest.timeline import machine_code


def refuse_loops(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the installed numba refuse what is compiled from now on in this test.

    Args:
        monkeypatch: Of the test.
        folder: Stands in for the folders of the cache.
    """

    def refuse(*arguments: object) -> bytes:
        raise KeyError("Unrecognized options: {'forceinline'}.\nKnown options: boundscheck")

    monkeypatch.setattr(machine_code, "_refusals", [])
    monkeypatch.setattr(machine_code, "_folders", lambda: (folder,))
    monkeypatch.setattr(machine_code, "_compile", refuse)
    # Loops that other tests compiled in this process.
    monkeypatch.setattr(machine_code.Compiled, "__call__", _forgetting)


_call = machine_code.Compiled.__call__


def _forgetting(self: machine_code.Compiled, *arguments: machine_code.Argument) -> int:
    afresh = machine_code.Compiled(self._function)
    return _call(afresh, *arguments)
