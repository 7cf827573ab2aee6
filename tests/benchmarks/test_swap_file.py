"""Swap for a while: where a machine does not allow it, the reason is said."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.swap_file import NotAllowedError, swap_file


def groups(tmp_path: Path) -> Path:
    (tmp_path / "memory.limit_in_bytes").touch()
    return tmp_path


def test_without_memory_groups_nothing_is_made(tmp_path: Path) -> None:
    with (
        pytest.raises(NotAllowedError, match="no control groups of version 1"),
        swap_file(tmp_path),
    ):
        pass


def test_swap_is_given_back_also_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    with pytest.raises(ValueError, match="the job"), swap_file(groups(tmp_path)):
        raise ValueError("the job")
    assert [program for program, _ in ran] == ["mkswap", "swapon", "swapoff"]
    (file,) = {file for _, file in ran}
    assert not Path(file).exists()


def test_what_the_kernel_refuses_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> None:
        if command[0] == "swapon":
            said = "swapon: /tmp/x: swapon failed: Operation not permitted\n"
            raise subprocess.CalledProcessError(255, command, stderr=said)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(NotAllowedError, match="Operation not permitted"):
        swap_file(groups(tmp_path)).__enter__()
