"""Loops over columns that run compiled on many rows, and as plain Python on few or without numba.

So each loop is written once. Starting compiled code takes longer than a plain loop over some ten
thousand rows.
"""

import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

MANY_ROWS = 50_000
"""So many rows are worth starting compiled code."""

ENOUGH_ROWS = 2000
"""So many are worth it where compiled code runs already."""

Columns = tuple[npt.NDArray[np.generic], ...]
Loop = Callable[[Any, Any], None]
"""Takes a tuple of columns to read, and one of columns to fill: of arrays, or of lists."""


def has_numba() -> bool:
    """Whether compiled code may be used."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, and keep the result for the next process where a folder can be written.

    What is kept is made anew only when the file of the function changes, not those it calls into.
    """
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder that could keep it is writable
        return njit(nogil=True)(function)


def run_loop(loop: Loop, inputs: Columns, outputs: Columns) -> None:
    """Run a loop, compiled if the first of its inputs has many rows."""
    enough = ENOUGH_ROWS if "numba" in sys.modules else MANY_ROWS
    if len(inputs[0]) >= enough and has_numba():
        _compiled_loop(loop)(inputs, outputs)
        return
    # Python takes items from lists several times as fast as from arrays.
    lists = tuple(column.tolist() for column in outputs)
    loop(tuple(column.tolist() for column in inputs), lists)
    for column, values in zip(outputs, lists, strict=True):
        column[:] = values


@functools.cache
def _compiled_loop(loop: Loop) -> Loop:
    return compiled(loop)
