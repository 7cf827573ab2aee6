"""The lines of ``events.jsonl`` of a pass: what ``hvdprof watch`` saw while the job ran.

``live.event_file`` writes them, ``ingest.rundir.event_rows`` reads them.
"""

from enum import StrEnum
from typing import Literal, NotRequired, TypedDict

EVENTS_FILE = "events.jsonl"


class EventKind(StrEnum):
    """What an event is about."""

    STRAGGLER = "straggler"
    SLOWDOWN = "slowdown"
    INPUT_BOUND = "input-bound"
    HANG = "hang"
    NO_PROGRESS = "no-progress"
    RANK_SILENT = "rank-silent"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    MEMORY_GROWS = "memory-grows"


class EventState(StrEnum):
    """``BEGUN`` until ``OVER``; ``ONCE`` for what is over when it is seen.

    ``SAMPLED`` and ``PROFILED`` follow a begin: what the named rank has answered; ``EXPLAINED``,
    too: what the samples of the machine explain of it.
    """

    BEGUN = "begun"
    OVER = "over"
    ONCE = "once"
    SAMPLED = "sampled"
    PROFILED = "profiled"
    EXPLAINED = "explained"


class EventLine(TypedDict):
    """An event: the begin and the end of one share ``number``.

    ``time_ns`` is the wall clock when it was seen, ``since_ns`` when it began, or was over; of
    what comes once, they are its end and its begin. ``ranks`` are those that it is about, empty
    for all; ``cost_ns`` is the time per step that it costs the job, and of what comes once all
    that it cost, ``step_ns`` the time of a step (both 0 where unknown); ``place`` is the sampled
    line of code, empty where unknown. Only after a begin: ``share`` is the share of the samples of
    the phase that ``place`` has, ``files`` the answers, in the folder of the recorder files.
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
    share: NotRequired[float]
    files: NotRequired[list[str]]
