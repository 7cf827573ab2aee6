"""The steps of one rank's trace, and forward and backward where nothing wraps the model."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from hvdprof.ingest.kineto.trace_clocks import GpuClock
from hvdprof.ingest.kineto.trace_events import Annotation
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


_MARKED = re.compile(r"ProfilerStep#(\d{1,12})$")
_UPDATE = re.compile(r"Optimizer\.step#")


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A step of the host, and when the work that it started was done, ns of the trace's clock.

    On CPUs both are the same.
    """

    number: int
    host_start_ns: int
    host_end_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TraceSteps:
    """The steps of a rank by start; ``are_marked`` is false where they were inferred."""

    steps: tuple[TraceStep, ...]
    are_marked: bool


def trace_steps(file: TraceFile, clock: GpuClock) -> TraceSteps:
    """The steps that a trace holds; none where nothing separates them.

    ``ProfilerStep#N`` marks them, also twice (host and GPU), of which the host's counts. Without
    a mark a step reaches from the end of one optimizer update to the end of the next; several
    updates without a backward pass between them are those of one step.

    Args:
        file: The trace.
        clock: When the GPU had done what the host had started.
    """
    marks: dict[int, tuple[int, int]] = {}
    for annotation in file.annotations:
        found = _MARKED.match(annotation.name)
        if found:
            marks.setdefault(int(found[1]), (annotation.start_ns, annotation.end_ns))
    if marks:
        hosted = [(number, *marks[number]) for number in sorted(marks)]
        return TraceSteps(_placed(hosted, clock), True)
    ends = _update_ends(file)
    return TraceSteps(
        _placed([(n, start, end) for n, (start, end) in enumerate(pairwise(ends))], clock), False
    )


def _placed(hosted: list[tuple[int, int, int]], clock: GpuClock) -> tuple[TraceStep, ...]:
    return tuple(
        TraceStep(number, start, end, clock.done_ns(start), clock.done_ns(end))
        for number, start, end in hosted
        if clock.done_ns(end) > clock.done_ns(start)
    )


def _update_ends(file: TraceFile) -> list[int]:
    """The end of the last optimizer update of each step."""
    updates = [annotation for annotation in file.annotations if _UPDATE.match(annotation.name)]
    autograd = file.autograd[0]
    ends: list[int] = []
    for one, following in zip_longest(updates, updates[1:]):
        if following is None or _is_between(autograd, one, following):
            ends.append(one.end_ns)
    return ends


def _is_between(times: Int64s, one: Annotation, following: Annotation) -> bool:
    low, high = times.searchsorted([one.end_ns, following.start_ns])
    return bool(high > low)
