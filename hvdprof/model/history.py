"""A series of runs of the same cells, with the runs from which on a metric changed.

Tested in ``tests/analyze/compare/test_history.py``.
"""

from dataclasses import dataclass

import pandas as pd

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.comparison import Metric
from hvdprof.model.schema import Column, Table

HISTORY = Table(
    "history",
    "One metric of one cell in one run of a series, in order of time.",
    (
        *CELL_COLUMNS,
        Column("time", "str", "", "Begin of the run, UTC; empty where unknown."),
        Column("commit", "str", "", "Commit of the working directory; empty where unknown."),
        Column("run", "str", "", "Name of the run."),
        Column("value", "float64", "", "The metric, in its unit."),
        Column("low", "float64", "", "Lower end of the 95 % interval; NaN where unknown."),
        Column("high", "float64", "", "Upper end of the 95 % interval; NaN where unknown."),
        Column(
            "segment", "int64", "", "Number of change points of the cell up to this run, from 0."
        ),
        Column("is_change", "bool", "", "The metric changed from this run on."),
        Column(
            "change",
            "float64",
            "ratio",
            "At a change point: mean of the runs from here to the next one against that of the "
            "runs before; relative, or in points of a ratio. Else NaN.",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class History:
    """A finished series; reports only format it.

    Attributes:
        metric: What was followed.
        sentence: The verdict in at most three sentences.
        rows: HISTORY.
        notes: Runs that were left out, and why.
    """

    metric: Metric
    sentence: str
    rows: pd.DataFrame
    notes: tuple[str, ...] = ()
