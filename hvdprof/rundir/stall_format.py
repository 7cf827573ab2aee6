"""The lines of ``stalls.jsonl`` of a pass, declared once for its writer and its reader.

``launch.diagnose.stall_watch`` writes a line when it sees a stall and one when the stall is over.
Tested in ``tests/launch/diagnose/test_stall_watch.py``.
"""

from enum import StrEnum
from typing import Literal, NotRequired, TypedDict

STALLS_FILE = "stalls.jsonl"

UNTIL_END = "until the job ended"
MISMATCH = "in different collectives"


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
    "Or wrap the loop in Join([model]) under DDP, call hvd.join() behind it under Horovod."
)
UNEQUAL_FIX = f"{UNEQUAL_STEP}. {UNEQUAL_MORE}"


class RankWaitRecord(TypedDict):
    """What a rank waits in, as ``launch.diagnose.rank_wait.RankWait`` describes it."""

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
    """Ranks with fewer batches, as ``launch.diagnose.unequal_batches`` describes them."""

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
