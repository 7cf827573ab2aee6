"""Forward and backward of a model that nothing wraps: no annotation says where forward begins.

Autograd numbers what it has to differentiate. The operators of forward carry the number of the next
function of backward, and those functions carry it again: so the forward pass of a backward pass
begins with the first operator that the backward pass differentiates. What stands before it, such as
the copy of a batch to the GPU, has the same number, and comes earlier.

Tested in ``tests/ingest/kineto/test_unwrapped_passes.py``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.model.arrays import Int64s


class Pass(NamedTuple):
    """Start of forward, start and end of its backward, ns; forward is None where not known."""

    forward_ns: int | None
    start_ns: int
    end_ns: int


def unwrapped_passes(file: TraceFile, low: int, high: int) -> list[Pass]:
    """The passes between two moments of the host, several where gradients are accumulated."""
    starts, ends, numbers = _outermost(*file.autograd, file.autograd_numbers, low, high)
    if not len(starts):
        return []
    # Backward runs from the last number down: a higher one is that of a new pass.
    highest = np.maximum.accumulate(numbers)
    borders = np.flatnonzero(numbers[1:] > highest[:-1]) + 1
    passes, reached = [], low
    for own in np.split(np.arange(len(starts)), borders):
        start, end = int(starts[own[0]]), min(int(ends[own].max()), high)
        passes.append(Pass(_forward_ns(file, numbers[own], reached, start), start, end))
        reached = end
    return passes


def _forward_ns(file: TraceFile, numbers: Int64s, low: int, high: int) -> int | None:
    """Where the first operator that has one of some numbers begins."""
    starts, ends, known = _between(*file.operators, low, high)
    common = np.intersect1d(numbers[numbers >= 0], known)
    if not len(common):
        return None
    first = known == common[0]
    # Of those with one number, the last that no other one encloses makes the function.
    *_, last = _enclosing(starts[first], ends[first])
    return int(starts[first][last])


def _enclosing(starts: Int64s, ends: Int64s) -> Iterator[int]:
    """Places of the intervals that none before them encloses; by start."""
    reached = -1
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if start >= reached:
            reached = end
            yield place


def _outermost(
    starts: Int64s, ends: Int64s, numbers: Int64s, low: int, high: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Those in a time, without those within others: a checkpoint has a backward of its own."""
    starts, ends, numbers = _between(starts, ends, numbers, low, high)
    places = list(_enclosing(starts, ends))
    return starts[places], ends[places], numbers[places]


def _between(
    starts: Int64s, ends: Int64s, numbers: Int64s, low: int, high: int
) -> tuple[Int64s, Int64s, Int64s]:
    first, last = np.searchsorted(starts, [low, high])
    return starts[first:last], ends[first:last], numbers[first:last]
