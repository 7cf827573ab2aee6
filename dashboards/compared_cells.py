"""The sides of a comparison: cells of runs, and their numbers as texts.

Tested in ``tests/dashboards/test_compare.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.section import fact
from hvdprof.model.cell_key import CELL_KEY, setting_name, with_engine
from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.tiles import (
    EFFICIENCY_FACT,
    STEP_TIME_FACT,
    STEPS_FACT,
    THROUGHPUT_FACT,
    efficiency_text,
    throughput_text,
    verdict_cell,
)

HEADS = (
    *("configuration", "run", "samples/s", "efficiency", "step, median", "steady steps", "blocked"),
)

_BETWEEN = "|"


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a cell of a run, its row of SCALING and its rows of WATERFALL."""

    run_id: str
    label: str
    scaling: pd.Series
    waterfall: pd.DataFrame


def cells_of(analysis: RunAnalysis) -> dict[str, pd.Series]:
    """The measured cells of Horovod and DDP, by their text in the address."""
    rows = analysis.scaling[with_engine(analysis.scaling)]
    return {_BETWEEN.join(str(row[key]) for key in CELL_KEY): row for _, row in rows.iterrows()}


def names_in(cell: str) -> list[str]:
    """The parts of a cell in the order of ``CELL_KEY``; a script name can hold any character."""
    return cell.rsplit(_BETWEEN, len(CELL_KEY) - 1)


def cell_text(cell: str) -> str:
    """A cell as texts name it."""
    model, num_ranks, *setting = names_in(cell)
    return f"{model} np={num_ranks}, {setting_name(*setting)}"


def side_of(analysis: RunAnalysis, run_id: str, cell: str) -> Side:
    """The side of a cell, by its text in the address."""
    row = cells_of(analysis)[cell]
    waterfall = analysis.table("waterfall")
    is_own = pd.Series(True, index=waterfall.index)
    for key in CELL_KEY:
        is_own &= waterfall[key] == row[key]
    return Side(run_id, cell_text(cell), row, waterfall[is_own.to_numpy(dtype=bool)])


def is_main_cell(analysis: RunAnalysis, cell: str) -> bool:
    """Whether a cell is that of the verdict, whose numbers other pages show too."""
    own = verdict_cell(analysis)
    return own is not None and all(
        str(own[key]) == str(cells_of(analysis)[cell][key]) for key in CELL_KEY
    )


def marked(numbers: Sequence[str]) -> list[Component | str]:
    """The numbers that other pages show too, each with its name for the test that compares them."""
    names = {
        "samples/s": THROUGHPUT_FACT,
        "efficiency": EFFICIENCY_FACT,
        "step, median": STEP_TIME_FACT,
        "steady steps": STEPS_FACT,
    }
    return [
        html.Span(text, **fact(names[head])) if head in names else text
        for head, text in zip(HEADS, numbers, strict=True)
    ]


def saved_sides(sides: Sequence[Side]) -> pd.DataFrame:
    """The rows of SCALING of these sides, with the run of each."""
    rows = pd.DataFrame([side.scaling for side in sides]).reset_index(drop=True)
    rows.insert(0, "run", [side.run_id for side in sides])
    return rows


def numbers_of(side: Side) -> tuple[str, ...]:
    """The row of a side in the order of ``HEADS``."""
    row = side.scaling
    numbers = row.to_dict()
    return (
        side.label,
        side.run_id,
        throughput_text(numbers),
        efficiency_text(numbers),
        units.milliseconds(row["step_time_median_ns"]),
        units.count(row["num_steps"]),
        f"{units.milliseconds(row['blocked_ns'])}, {units.percent(row['blocked_share'])}",
    )
