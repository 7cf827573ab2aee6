"""The result of one check of the doctor."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """``RISK``: it is there, and in a way that makes something fail or a number wrong.

    ``UNSET``: a variable without a value, whose default can slow a script.
    """

    FOUND = "found"
    MISSING = "missing"
    UNSET = "unset"
    RISK = "risk"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``hvdprof doctor``.

    ``name`` is stable, for programs; ``title`` and ``detail`` are for readers; ``fix`` is the
    exact command or setting that fixes it, empty where there is nothing to fix;
    ``stops_bench`` is whether ``hvdprof bench`` cannot run because of it; ``disturbs_bench`` names
    what makes its numbers wrong, empty where nothing does.
    """

    name: str
    title: str
    state: State
    detail: str
    fix: str = ""
    stops_bench: bool = False
    disturbs_bench: str = ""


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

    def unset(self, detail: str, fix: str) -> Finding:
        """A variable without a value."""
        return Finding(self.name, self.title, State.UNSET, detail, fix)

    def risk(
        self, detail: str, fix: str, *, stops_bench: bool = False, disturbs_bench: str = ""
    ) -> Finding:
        """It is there, in a way that makes something fail or a number wrong."""
        return Finding(self.name, self.title, State.RISK, detail, fix, stops_bench, disturbs_bench)
