"""The steps of one rank's trace: marked by the profiler, or inferred from optimizer updates.

Tested in ``tests/ingest/kineto/test_trace_set.py``.
"""

import re
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from hvdprof.ingest.kineto.gpu_clock import GpuClock
from hvdprof.ingest.kineto.trace_events import Annotation
from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.model.arrays import Int64s

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
