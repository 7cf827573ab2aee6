"""The lines of ``stalls.jsonl`` and ``events.jsonl`` of a pass, for their writers and readers.

``launch.diagnose.stall_watch`` writes a line when it sees a stall and one when the stall is over.
Events are what ``hvdprof watch`` saw: ``live.watched_job`` writes them, ``ingest.rundir.pass_logs``
reads them.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePath
from typing import Literal, NotRequired, TypedDict

STALLS_FILE = "stalls.jsonl"
UNTIL_END = "until the job ended"
MISMATCH = "in different collectives"
_CHECKPOINT = re.compile(
    r"torch/serialization\.py|distributed/checkpoint/|safetensors/|"
    r"[ .]save(?:_model|_pretrained|_state\w*|_weights)?$|checkpoint\w*$",
    re.IGNORECASE,
)
"""In the lines of a rank that writes a checkpoint: PyTorch's, and functions named so."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/hvdprof/collect/", "<")
"""In or before the paths of files that are not the script's own."""

EVENTS_FILE = "events.jsonl"


class StallCause(StrEnum):
    """Why ranks are blocked: a rank, or where every rank waits, the collectives."""

    UNEQUAL = "unequal-batches"
    CHECKPOINT = "checkpoint"
    RANK = "stalled-rank"
    MISMATCH = "mismatched-collectives"
    COLLECTIVE = "hung-collective"


CHECKPOINT_STEP = (
    "write the checkpoint less often, asynchronously, or to faster storage: the other ranks wait "
    "for it"
)


CHECKPOINT_FIX = f"{CHECKPOINT_STEP}."
"""What to do where the stack of the stalled rank is in a checkpoint."""


UNEQUAL_STEP = (
    "give every rank as many batches: drop_last=True, equal shards, or a fixed number of steps per "
    "epoch"
)


UNEQUAL_MORE = (
    "Or wrap the loop in Join([model]) under DDP, call hvd.join() behind it under Horovod. Where "
    "the script leaves the loop by break, return or sys.exit(), do so on all ranks."
)


UNEQUAL_FIX = f"{UNEQUAL_STEP}. {UNEQUAL_MORE}"


class RankWaitRecord(TypedDict):
    """What a rank waits in, as ``launch.diagnose.watch_state.RankWait`` describes it."""

    rank: int
    step: int
    collective: str
    place: str
    tensors: list[str]


class StalledRankRecord(TypedDict):
    """A rank that others wait for, as ``launch.diagnose.stall.StalledRank`` describes it."""

    rank: int
    state: str
    step: int
    phase: str
    tensors: list[str]
    stack: list[str]
    host: str
    pid: int | None


class UnequalRecord(TypedDict):
    """Ranks with fewer batches, as ``launch.diagnose.watch_state`` describes them."""

    ended: list[int]
    num_steps: int
    waiting: list[int]
    step: int


class StallLine(TypedDict):
    """A stall that was seen, as ``launch.diagnose.stall.Stall`` describes it."""

    kind: Literal["stall"]
    number: int
    segment: str
    step: int
    time_ns: int
    waited_s: float
    waiting: list[int]
    late: list[StalledRankRecord]
    waits: NotRequired[list[RankWaitRecord]]
    at_end: NotRequired[bool]
    unequal: NotRequired[UnequalRecord | None]


class StallOverLine(TypedDict):
    """The end of the stall with that number, how long it lasted, and whether the job ended it."""

    kind: Literal["over"]
    number: int
    lasted_s: float
    at_end: NotRequired[bool]


def script_frame(stack: Sequence[str]) -> str:
    """The innermost line of the script in a stack, innermost first; empty if there is none."""
    for frame in stack:
        path, _, _ = frame.rpartition(" ")
        if not any(library in path for library in _LIBRARIES):
            return frame
    return ""


def frame_parts(frame: str) -> tuple[str, str, str]:
    """Name of the file, line, and function, which is empty at the level of a module."""
    place, _, function = frame.rpartition(" ")
    path, _, line = place.rpartition(":")
    return PurePath(path).name, line, "" if function == "<module>" else function


def writes_checkpoint(stack: Sequence[str]) -> bool:
    """Whether a stack is that of a rank that writes a checkpoint, or reads one."""
    return any(_CHECKPOINT.search(frame) for frame in stack)


def frames_from_checkpoint(stack: Sequence[str]) -> Sequence[str]:
    """The stack from its checkpoint on outwards, where it has one: what that calls is no cause."""
    places = (place for place, frame in enumerate(stack) if _CHECKPOINT.search(frame))
    return stack[next(places, 0) :]


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
