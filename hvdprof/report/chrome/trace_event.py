"""What a Chrome trace is made of, before it becomes JSON."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pandas as pd

from hvdprof.report.json_values import JsonValue


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread of the viewer: ``process`` and ``thread`` number it, ``name`` labels it."""

    process: int
    thread: int
    name: str


class EventKind(StrEnum):
    """What an event is, by its letter in the format; an interval without a length is an instant."""

    INTERVAL = "X"
    COUNTER = "C"
    FLOW_START = "s"
    FLOW_END = "f"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An interval on a lane, or an instant where ``dur_ns`` is ``None``.

    ``flow`` is the number that the two ends of an arrow share. ``category`` is the name of the lane
    without the number of a further one, unless it is given.
    """

    lane: Lane
    name: str
    start_ns: int
    dur_ns: int | None
    args: Mapping[str, JsonValue] = field(default_factory=dict)
    colour: str = ""
    kind: EventKind = EventKind.INTERVAL
    flow: int = 0
    category: str = ""


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows one by one, columns as attributes, without a copy of the table."""
    return iter(table.itertuples())


def in_order_of_time(sources: Iterable[Iterable[TraceEvent]]) -> Iterator[TraceEvent]:
    """All events by start, the longer first, from sources that are each in that order."""
    return heapq.merge(*sources, key=lambda event: (event.start_ns, -(event.dur_ns or 0)))
