"""What became of the limits of a run, such as ``efficiency<80%``."""

from dataclasses import dataclass
from enum import StrEnum


class LimitOutcome(StrEnum):
    """What became of a limit: beyond doubt, or not decided by the intervals."""

    FAILED = "failed"
    PASSED = "passed"
    UNDECIDED = "undecided"


_SAID = {
    LimitOutcome.FAILED: "failed",
    LimitOutcome.PASSED: "passed",
    LimitOutcome.UNDECIDED: "is undecided",
}


@dataclass(frozen=True, slots=True)
class LimitResult:
    """A limit, its outcome over all cells, and the cells that decide it with their values.

    ``advice`` is what would decide it; empty where it is decided, or nothing would.
    """

    text: str
    outcome: LimitOutcome
    cells: str
    advice: str = ""

    @property
    def sentence(self) -> str:
        """``efficiency<80% failed: resnet18 on 2 ranks: 62 % (58 to 66)``."""
        advice = f". {self.advice}" if self.advice else ""
        return f"{self.text} {_SAID[self.outcome]}: {self.cells}{advice}"
