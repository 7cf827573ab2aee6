"""The result of one check of the doctor.

Tested in ``tests/machine/doctor/test_checks.py``.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """``TRAP``: it is there, and in a way that makes something fail or a number wrong."""

    FOUND = "found"
    MISSING = "missing"
    TRAP = "trap"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``hvdprof doctor``.

    ``name`` is stable, for programs; ``title`` and ``detail`` are for readers; ``fix`` is the
    exact command or setting that fixes it, empty where there is nothing to fix;
    ``stops_bench`` is whether ``hvdprof bench`` cannot run because of it.
    """

    name: str
    title: str
    state: State
    detail: str
    fix: str = ""
    stops_bench: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The name and the title of a line, to make its finding from.

    A check of ``Line("torch", "torch")`` reads ``line.missing("not installed", fix="...")``.
    """

    name: str
    title: str

    def found(self, detail: str, fix: str = "") -> Finding:
        """It is there; ``fix`` is what would improve it."""
        return Finding(self.name, self.title, State.FOUND, detail, fix)

    def missing(self, detail: str, fix: str = "", *, stops_bench: bool = False) -> Finding:
        """It is not there."""
        return Finding(self.name, self.title, State.MISSING, detail, fix, stops_bench)

    def trap(self, detail: str, fix: str, *, stops_bench: bool = False) -> Finding:
        """It is there, in a way that makes something fail or a number wrong."""
        return Finding(self.name, self.title, State.TRAP, detail, fix, stops_bench)
