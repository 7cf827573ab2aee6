"""Limits of a run, such as ``efficiency<80%``: what became of them, and what is too uncertain."""

from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

WIDE_SHARE = 0.1
"""Half of a 95 % interval, as a share of its value, beyond which a number is drawn as uncertain."""

WIDE_MARK = "≈"
"""Stands before an efficiency whose interval is that wide."""


def is_wide(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Mask of the rows of SCALING whose efficiency has an interval wider than ±10 %."""
    half = (cells["efficiency_high"] - cells["efficiency_low"]) / 2
    return half / cells["efficiency"] > WIDE_SHARE


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
