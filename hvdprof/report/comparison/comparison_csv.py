"""A comparison as CSV in the layout of Apache Otava: a line for each run, a column for each metric.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import csv
import math
import re
from typing import IO

from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.comparison import Comparison
from hvdprof.model.frame_row import FrameRow

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def render_comparison_csv(comparison: Comparison, stream: IO[str]) -> None:
    """Write the columns ``time`` (UTC), ``commit``, ``run``, and one for each metric of each cell.

    Values are in the units of COMPARED_CELLS; an empty field where one is unknown.
    """
    rows = comparison.cells.to_dict("records")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["time", "commit", "run", *(_column(row) for row in rows)])
    for side, values in ((comparison.first, "first"), (comparison.second, "second")):
        writer.writerow(
            [side.created_at, side.commit, side.name, *(_number(row[values]) for row in rows)]
        )


def _column(row: FrameRow) -> str:
    parts = [str(row[name]) for name in CELL_KEY if row[name] not in ("none", "average")]
    unit = {"ns": "_ns", "samples/s": "_per_s"}.get(str(row["unit"]), "")
    text = "_".join([parts[0], f"np{parts[1]}", *parts[2:], str(row["metric"])])
    return _NOT_IN_NAMES.sub("_", text) + unit


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(float(value))
