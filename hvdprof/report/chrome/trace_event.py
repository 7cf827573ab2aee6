"""What a Chrome trace is made of, before it becomes JSON."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hvdprof.report.json_values import JsonValue


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread of the viewer: ``process`` and ``thread`` number it, ``name`` labels it."""

    process: int
    thread: int
    name: str


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An interval on a lane, or an instant where ``dur_ns`` is ``None``."""

    lane: Lane
    name: str
    start_ns: int
    dur_ns: int | None
    args: Mapping[str, JsonValue] = field(default_factory=dict)
    colour: str = ""


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows one by one, columns as attributes, without a copy of the table."""
    return iter(table.itertuples())


def in_order_of_time(sources: Iterable[Iterable[TraceEvent]]) -> Iterator[TraceEvent]:
    """All events by start, the longer first, from sources that are each in that order."""
    return heapq.merge(*sources, key=lambda event: (event.start_ns, -(event.dur_ns or 0)))


def lanes_without_overlap(
    starts_ns: npt.NDArray[np.int64], ends_ns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The lane of each interval, from 0, such that no two of one lane overlap.

    Greedy by start, which needs no more lanes than intervals overlap at any one time. Starts must
    ascend.
    """
    lanes = np.zeros(len(starts_ns), dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for index, (start, end) in enumerate(zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        lanes[index] = lane
        heapq.heappush(busy, (end, lane))
    return lanes
