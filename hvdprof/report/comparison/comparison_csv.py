"""Metrics of runs as CSV in the layout of Apache Otava: a line for each run.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

import csv
import math
import re
from collections.abc import Sequence
from typing import IO

from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import CELL_KEY, NO_ADASUM, NO_COMPRESSION

_OFF = (*NO_COMPRESSION, *NO_ADASUM)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def write_values(
    values: Sequence[tuple[tuple[str, ...], FrameRow, str, str]], stream: IO[str]
) -> None:
    """Write ``time`` (UTC), ``commit``, ``run`` and a column for each metric of each cell.

    Values are in the units of their tables, empty where unknown.

    Args:
        values: What orders the lines, with time, commit and name of the run; a row with a cell and
            its metric; the unit of the metric; and the column of the row that holds it.
        stream: Where to.
    """
    columns = list(dict.fromkeys(_column(row, unit) for _, row, unit, _ in values))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for run, row, unit, name in values:
        value = float(row[name])
        lines.setdefault(run, {})[_column(row, unit)] = "" if math.isnan(value) else repr(value)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["time", "commit", "run", *columns])
    for run in sorted(lines):
        writer.writerow([*run[1:], *(lines[run].get(column, "") for column in columns)])


def _column(row: FrameRow, unit: str) -> str:
    """Name of the column of a metric of a cell: ``resnet18_np2_horovod_step_time_ns``."""
    parts = [str(row[name]) for name in CELL_KEY if row[name] not in _OFF]
    suffix = {"ns": "_ns", "samples/s": "_per_s"}.get(unit, "")
    text = "_".join([parts[0], f"np{parts[1]}", *parts[2:], str(row["metric"])])
    return _NOT_IN_NAMES.sub("_", text) + suffix
