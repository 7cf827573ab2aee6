"""Loops over columns that run compiled on many rows, and as plain Python on few or without numba.

So each loop is written once. Starting compiled code takes longer than a plain loop over some
thousand rows.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from hvdprof.ingest.timeline.machine_code import NotCompiledError, compiled, has_numba
from hvdprof.model.arrays import Column

MANY_ROWS = 20_000
"""So many rows are worth starting compiled code."""

ENOUGH_ROWS = 2000
"""So many are worth it where compiled code runs already."""

Columns = tuple[Column, ...]
Loop = Callable[[Any, Any], None]
"""Takes a tuple of columns to read, and one of columns to fill: of arrays, or of lists."""


def run_loop(loop: Loop, inputs: Columns, outputs: Columns) -> None:
    """Run a loop, compiled if the first of its inputs has many rows."""
    enough = ENOUGH_ROWS if "llvmlite.binding" in sys.modules else MANY_ROWS
    if len(inputs[0]) >= enough and has_numba():
        with contextlib.suppress(NotCompiledError):
            compiled(loop)(inputs, outputs)
            return
    # Python takes items from lists several times as fast as from arrays.
    lists = tuple(column.tolist() for column in outputs)
    loop(tuple(column.tolist() for column in inputs), lists)
    for column, values in zip(outputs, lists, strict=True):
        column[:] = values
