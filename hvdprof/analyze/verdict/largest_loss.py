"""The second sentence of a verdict: the largest loss of the cell, its cost and its fix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import is_costly
from hvdprof.analyze.findings.finding import (
    END_OTHER_PROCESSES,
    SMALLEST_COST,
    WARNING_COST,
    first_fix,
    title_inside,
)
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import CAUSES, INPUT_BOUND, SERIALIZATION
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import Verdict

SMALLEST_OFFSET = 0.02
"""Gains are named from here on: the largest loss then exceeds the whole lost efficiency."""


@dataclass(frozen=True, slots=True)
class LargestLoss:
    """The costliest cause of a cell: its name, its share of the step, and a sentence on it."""

    name: str
    share: float
    sentence: str


def largest_loss(
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    cell: pd.Series,
    *,
    smallest: float = SMALLEST_COST,
    terms: Sequence[str] = tuple(CAUSES),
) -> LargestLoss | None:
    """The costliest cause of a cell without toggles; None where no cause costs enough.

    Causes are compared by what the baseline does not have. Time in the data phase and between steps
    is named from a tenth of the step on, or where it is a twentieth more than in the baseline:
    every loop has some.

    Args:
        waterfall: WATERFALL of the run.
        findings: FINDINGS of the run: the one on that cause holds its fix.
        cell: A row of SCALING.
        smallest: Share of the step below which a cause is not named.
        terms: The terms to choose from.
    """
    model, np_, engine = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    rows = of_base_cell(waterfall, model, np_, engine).to_dict("records")
    costly = [
        row
        for row in rows
        if is_costly(row) and row["term"] in terms and row["share"] >= smallest and _is_worth(row)
    ]
    if not costly:
        return None
    row = max(costly, key=_lost_share)
    cost = f"{units.milliseconds(float(row['time_ns']))} per step"
    cost += f" ({units.percent(float(row['share']))})"
    name = cause_name(row)
    of_cell = findings[
        (findings["model"] == model)
        & (findings["np"] == np_).fillna(False)
        & (findings["engine"] == engine)
        & (findings["cost_ns"] == row["time_ns"])
    ]
    if of_cell.empty:
        return LargestLoss(name, float(row["share"]), f"Largest loss: {name}, {cost}.")
    title, action = (str(of_cell.iloc[0][column]) for column in ("title", "action"))
    # The caveat of the verdict names the other processes.
    fix = first_fix(action.removeprefix(f"{END_OTHER_PROCESSES} Otherwise, "))
    sentence = f"Largest loss: {title_inside(title)}, {cost}; fix: {fix}."
    return LargestLoss(name, float(row["share"]), sentence)


def _is_worth(row: FrameRow) -> bool:
    if row["term"] not in (INPUT_BOUND, SERIALIZATION):
        return True
    is_new = not math.isnan(float(row["baseline_ns"])) and _lost_share(row) >= SMALLEST_COST
    return is_new or float(row["share"]) >= WARNING_COST


def _lost_share(row: FrameRow) -> float:
    """The share of the step that the baseline does not have."""
    share, of_baseline = float(row["share"]), float(row["baseline_ns"])
    return share if math.isnan(of_baseline) else share * (1 - of_baseline / float(row["time_ns"]))


def offset(verdict: Verdict) -> str:
    """A sentence on gains that offset a part of the largest loss; may be empty."""
    made_up = verdict.biggest_loss_share - (1 - verdict.efficiency)
    if not made_up > SMALLEST_OFFSET:
        return ""
    points = units.points(made_up).removeprefix("+")
    share = units.points(verdict.biggest_loss_share).removeprefix("+")
    return f"Gains, and losses that the baseline has too, offset {points} of these {share}."
