"""What the doctor says about one thing."""

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

    ``name`` is stable, for programs; ``title`` and ``detail`` are for readers; ``mend`` is the
    exact command or setting that changes it, empty where nothing need or can be done;
    ``stops_bench`` is whether ``hvdprof bench`` cannot run because of it.
    """

    name: str
    title: str
    state: State
    detail: str
    mend: str = ""
    stops_bench: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The name and the title of a line, to make its finding from.

    A check of ``Line("torch", "torch")`` reads ``line.missing("not installed", mend="...")``.
    """

    name: str
    title: str

    def found(self, detail: str, mend: str = "") -> Finding:
        """It is there; ``mend`` is what would make it better."""
        return Finding(self.name, self.title, State.FOUND, detail, mend)

    def missing(self, detail: str, mend: str = "", *, stops_bench: bool = False) -> Finding:
        """It is not there."""
        return Finding(self.name, self.title, State.MISSING, detail, mend, stops_bench)

    def trap(self, detail: str, mend: str, *, stops_bench: bool = False) -> Finding:
        """It is there, in a way that makes something fail or a number wrong."""
        return Finding(self.name, self.title, State.TRAP, detail, mend, stops_bench)
