"""The lines of ``stalls.jsonl`` of a pass, declared once for its writer and its reader.

``launch.diagnose.stall_watch`` writes a line when it sees a stall and one when the stall is over.
Tested in ``tests/launch/diagnose/test_stall_watch.py``.
"""

from typing import Literal, TypedDict

STALLS_FILE = "stalls.jsonl"

STACK_MARK = "; stack: "
"""In the message of a stall's row of INCIDENTS, what comes before the innermost stack line."""


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


class StallOverLine(TypedDict):
    """The end of the stall with that number, and how long it lasted."""

    kind: Literal["over"]
    number: int
    lasted_s: float
