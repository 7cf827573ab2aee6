"""A comparison as CSV in the layout of Apache Otava: a line for each run, a column for each metric.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import csv
import math
import re
from typing import IO

from hvdprof.model.cell_key import CELL_KEY, NO_ADASUM, NO_COMPRESSION
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.results.comparison import Comparison

_OFF = (*NO_COMPRESSION, *NO_ADASUM)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def render_comparison_csv(comparison: Comparison, stream: IO[str]) -> None:
    """Write the columns ``time`` (UTC), ``commit``, ``run``, and one for each metric of each cell.

    Values are in the units of COMPARED_CELLS; an empty field where one is unknown.
    """
    rows = comparison.cells.to_dict("records")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["time", "commit", "run", *(metric_column(row, str(row["unit"])) for row in rows)]
    )
    for side, values in ((comparison.first, "first"), (comparison.second, "second")):
        writer.writerow(
            [side.created_at, side.commit, side.name, *(number_text(row[values]) for row in rows)]
        )


def metric_column(row: FrameRow, unit: str) -> str:
    """Name of the column of a metric of a cell: ``resnet18_np2_horovod_step_time_ns``."""
    parts = [str(row[name]) for name in CELL_KEY if row[name] not in _OFF]
    suffix = {"ns": "_ns", "samples/s": "_per_s"}.get(unit, "")
    text = "_".join([parts[0], f"np{parts[1]}", *parts[2:], str(row["metric"])])
    return _NOT_IN_NAMES.sub("_", text) + suffix


def number_text(value: float) -> str:
    """A number with all its digits; empty where unknown."""
    return "" if math.isnan(value) else repr(float(value))
