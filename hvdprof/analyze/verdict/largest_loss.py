"""The second sentence of a verdict: the largest loss of the cell and its fix."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import first_fix, title_inside
from hvdprof.model.run import Verdict
from hvdprof.model.step_parts import PART_NAMES

LOSS_RULES: tuple[str, ...] = (
    "persistent-straggler",
    "transient-straggler",
    "rotating-stragglers",
    "exposed-transfer",
    "network-bound",
    "below-network",
    "gloo-transfer",
    "shared-memory-transfer",
    "cycle-bound",
    "compute-inflation",
)
"""Rules on causes of lost time; the others find what the baseline has, too, or settings."""

SMALLEST_GAIN = 0.01
"""A smaller potential gain is not worth a promise."""

SMALLEST_OFFSET = 0.02
"""Parts that got faster are named from here on: the largest loss then exceeds the whole loss."""


def largest_loss(verdict: Verdict, findings: pd.DataFrame) -> str:
    """The largest loss with its share and its fix, or the largest part of LOSSES; may be empty.

    Args:
        verdict: The numbers of the verdict; its part with the largest loss may be empty.
        findings: FINDINGS of the run.
    """
    of_cell = findings[
        (findings["model"] == verdict.model)
        & (findings["np"] == verdict.np).fillna(False)
        & (findings["engine"] == verdict.engine)
        & findings["id"].astype(str).isin(LOSS_RULES)
        & findings["cost_share"].notna()
    ]
    if of_cell.empty:
        points = units.points(verdict.biggest_loss_share).removeprefix("+")
        return f"Largest loss: {PART_NAMES[verdict.biggest_loss]} ({points})."
    row = of_cell.sort_values("cost_share", kind="stable").iloc[-1]
    title, action = str(row["title"]), str(row["action"])
    share = units.percent(float(row["cost_share"]))
    reached = _reached(verdict, float(row["gain_share"]))
    fix = first_fix(action) + (f" (up to {reached} without this loss)" if reached else "")
    return f"Largest loss: {title_inside(title)}, {share} of step time; fix: {fix}."


def offset(verdict: Verdict) -> str:
    """A sentence on parts that got faster and offset a part of the largest loss; may be empty."""
    made_up = verdict.biggest_loss_share - (1 - verdict.efficiency)
    if not made_up > SMALLEST_OFFSET:
        return ""
    points = units.points(made_up).removeprefix("+")
    part = PART_NAMES[verdict.biggest_loss]
    share = units.points(verdict.biggest_loss_share).removeprefix("+")
    return f"Parts that got faster offset {points} of the {share} of {part}."


def _reached(verdict: Verdict, gain: float) -> str:
    """The efficiency after the fix; empty where it would exceed 1, which other parts explain."""
    if not SMALLEST_GAIN <= gain < 1:
        return ""
    reached = verdict.efficiency / (1 - gain)
    return units.percent(reached) if reached <= 1 else ""
