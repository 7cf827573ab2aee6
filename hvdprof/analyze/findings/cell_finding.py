"""What findings on one cell have in common: its rows, its costly terms, its name and its cost.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.cell_key import CELL_KEY, place_name, short_name


class CellCost(TypedDict):
    """The fields of a finding that say of which cell it is, and what it costs there."""

    model: str
    np: int
    engine: str
    cost_ns: float
    cost_share: float
    gain_share: float


@dataclass(frozen=True, slots=True)
class CostlyTerm:
    """A term of the waterfall that costs a cell at least 5 % of its step.

    Attributes:
        cell: The row of SCALING.
        share: The cost divided by the step time.
        share_text: The same as text with its 95 % interval.
        cost_ns: The cost per step.
    """

    cell: Cell
    share: float
    share_text: str
    cost_ns: float


def costly_terms(evidence: Evidence, term: str) -> Iterator[CostlyTerm]:
    """Cells without toggles in which a term costs enough, beyond its uncertainty."""
    rows = evidence.table("waterfall")
    of_term = rows[rows["term"] == term]
    for cell in evidence.cells():
        if not is_base(cell) or cell["np"] < 2:
            continue
        for row in rows_of_cell(of_term, cell).to_dict("records"):
            # One launch gives no interval: the term is reported, and a warning says so.
            if row["share"] >= SMALLEST_COST and not row["share_low"] <= 0:
                share, low, high = (float(row[f"share{end}"]) for end in ("", "_low", "_high"))
                text = units.interval_of_unit(share, low, high, "ratio")
                yield CostlyTerm(cell, share, text, float(row["time_ns"]))


def rows_of_cell(rows: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """The rows of a table of cells that are of this cell."""
    for name in CELL_KEY:
        rows = rows[rows[name] == cell[name]]
    return rows


def gain_share(evidence: Evidence, cell: Cell, remedy: str, rank: int | None = None) -> float:
    """The largest share of the step that a remedy of the replay can save; NaN where unknown."""
    rows = rows_of_cell(evidence.table("ceilings"), cell)
    rows = rows[rows["remedy"] == remedy]
    if rank is not None:
        rows = rows[(rows["rank"] == rank).fillna(False)]
    return float(rows["saved_share"].iloc[0]) if len(rows) else NAN


def cost_of(cell: Cell, share: float, cost_ns: float, gain: float) -> CellCost:
    """The fields of a finding that say of which cell it is, and what it costs there."""
    return {
        "model": str(cell["model"]),
        "np": int(cell["np"]),
        "engine": str(cell["engine"]),
        "cost_ns": cost_ns,
        "cost_share": share,
        "gain_share": gain,
    }


def step_ns(cell: Cell) -> float:
    """The median step of the cell, ns."""
    return float(cell["step_time_median_ns"])


def cell_name(cell: Cell) -> str:
    """The cell as the subject of a finding."""
    return short_name(cell["model"], cell["np"], cell["engine"])


def cell_place(cell: Cell) -> str:
    """The cell at the begin of a sentence."""
    return place_name(cell["model"], cell["np"], cell["engine"])
