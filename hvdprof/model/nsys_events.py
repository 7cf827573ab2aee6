"""The events of an export of Nsight Systems, as a reader passes them on one by one.

Tested in ``tests/report/chrome/test_collective_trace.py``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class NsysKind(StrEnum):
    """What an event is; the order is that of the lanes of a process."""

    RANGE = "range"
    COMPUTE_KERNEL = "compute kernel"
    NCCL_KERNEL = "NCCL kernel"


@dataclass(frozen=True, slots=True)
class NsysLane:
    """Where events happen: a stream of a GPU, or the ranges of one NVTX domain in a thread.

    ``process`` is the number by which the export names a process; ``name`` labels the lane.
    """

    process: int
    kind: NsysKind
    name: str


@dataclass(frozen=True, slots=True)
class NsysEvent:
    """A kernel, a range or a mark (``is_mark``), ns; ``end_ns`` is None where it is not recorded.

    ``name`` is that of the export.
    """

    lane: NsysLane
    name: str
    start_ns: int
    end_ns: int | None
    is_mark: bool = False
    args: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NsysEvents:
    """An open export: names of its processes, lanes in order, and events by start.

    ``events`` are read from the file while they are used, once; of two that start together the
    longer one is first. Times are on the clock of the export, from ``first_ns`` to ``last_ns``.
    """

    processes: Mapping[int, str]
    lanes: Sequence[NsysLane]
    events: Iterable[NsysEvent]
    first_ns: int
    last_ns: int
    version: str
