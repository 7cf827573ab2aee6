"""The lines of ``events.jsonl`` of a pass: what ``hvdprof watch`` saw while the job ran.

``live.event_file`` writes them, ``ingest.rundir.event_rows`` reads them.
"""

from enum import StrEnum
from typing import Literal, TypedDict

EVENTS_FILE = "events.jsonl"


class EventKind(StrEnum):
    """What an event is about."""

    STRAGGLER = "straggler"
    SLOWDOWN = "slowdown"
    INPUT_BOUND = "input-bound"
    HANG = "hang"
    NO_PROGRESS = "no-progress"
    RANK_SILENT = "rank-silent"


class EventState(StrEnum):
    """``BEGUN`` until ``OVER``; ``ONCE`` for what has no length of its own."""

    BEGUN = "begun"
    OVER = "over"
    ONCE = "once"


class EventLine(TypedDict):
    """An event: the begin and the end of one share ``number``.

    ``time_ns`` is the wall clock when it was seen, ``since_ns`` when it began, or was over.
    ``ranks`` are those that it is about, empty for all; ``cost_ns`` is the time per step that it
    costs the job, ``step_ns`` the time of a step (both 0 where unknown); ``place`` is the sampled
    line of code, empty where unknown.
    """

    kind: Literal["event"]
    number: int
    event: str
    state: str
    time_ns: int
    since_ns: int
    segment: str
    step: int
    ranks: list[int]
    host: str
    phase: str
    cost_ns: int
    step_ns: int
    place: str
    text: str
