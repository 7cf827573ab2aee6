"""Sees from the launching side that ranks wait for others that do not get on, and says who.

Each rank that stands still says where (``hvdprof.collect.watchdog``). It is a stall where at least
one rank waits in a collective for longer than asked for. Ranks that all pause alike, for input or a
checkpoint, wait for nobody.
"""

import contextlib
import datetime as dt
import json
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hvdprof import units
from hvdprof.launch.diagnose.stack_text import training_stack
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Failure

MAX_NAMED_TENSORS = 5
MAX_NAMED_RANKS = 8
GRACE_S = 3.0
"""A late rank tells that it stands still within a look of its own; until then it is waited for."""

RUNS, ENDED, ABSENT, GONE, STOPPED, SILENT = (
    "runs",
    "ended",
    "absent",
    "gone",
    "stopped",
    "silent",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """A rank that others wait for.

    ``state`` is ``runs`` (it does something else, in ``phase``), ``ended`` (its recording is over),
    ``absent`` (it has not begun to record), ``gone`` (its process has ended), ``stopped`` (by a
    signal) or ``silent`` (it gets on slowly, holds Python's lock, or is on another host and one of
    the others). ``tensors`` are the gradients that others have handed over in that step and it has
    not; ``stack`` are the lines of its training thread, innermost first.
    """

    rank: int
    state: str
    step: int
    phase: str
    tensors: list[str]
    stack: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Ranks that wait, and those they wait for; nobody is late where all wait."""

    number: int
    segment: str
    step: int
    waited_s: float
    waiting: list[int]
    late: list[LateRank]

    def sentence(self) -> str:
        """What happened, in one sentence."""
        waiting = f"{_ranks(self.waiting)} {'waits' if len(self.waiting) == 1 else 'wait'}"
        since = f"stall at step {self.step}: {waiting} since {units.seconds(self.waited_s)}"
        if not self.late:
            return f"{since}, and no rank is late: the collective itself does not end"
        return f"{since} for {'; '.join(_late(rank) for rank in self.late[:MAX_NAMED_RANKS])}"

    def lines(self) -> list[str]:
        """The sentence, and under it the stack of the first late rank that has one."""
        shown = next((rank for rank in self.late if rank.stack), None)
        if shown is None:
            return [self.sentence()]
        return [self.sentence(), f"rank {shown.rank} is in:", *(f"  {one}" for one in shown.stack)]


class StallWatch:
    """Watches the ranks of one pass.

    Args:
        paths: The files of the pass.
        size: Number of ranks.
        warn_s: Seconds of waiting after which a stall is told, once.
        kill_s: Seconds after which the pass is to be ended, None for never.
        tell: Called with each stall.
    """

    def __init__(
        self,
        paths: PassPaths,
        size: int,
        *,
        warn_s: float,
        kill_s: float | None,
        tell: Callable[[Stall], None],
    ) -> None:
        self._paths = paths
        self._size = size
        self._warn_s = warn_s
        self._kill_s = kill_s
        self._tell = tell
        self._number = 0
        self._open: tuple[Stall, float] | None = None
        self._killed_by: Stall | None = None

    def look(self) -> None:
        """Look at the files of all ranks once; tell a stall that is new, and one that is over."""
        states = self._states()
        waiting = [state for state in states.values() if _waits(state, self._warn_s)]
        if not waiting:
            self._close()
            return
        step = min(int(state["step"]) for state in waiting)
        if self._open is None or self._open[0].step != step:
            self._close()
            stall = self._stall(states, waiting)
            is_unclear = any(rank.state == SILENT for rank in stall.late)
            if is_unclear and stall.waited_s < self._warn_s + GRACE_S:
                return
            self._number += 1
            self._open = stall, time.monotonic() - stall.waited_s
            self._write({"kind": "stall", "time_ns": _local_time_ns(), **asdict(stall)})
            self._tell(stall)
        if self._kill_s is not None and time.monotonic() - self._open[1] >= self._kill_s:
            self._killed_by = self._open[0]

    def finish(self) -> None:
        """The pass has ended, and a stall with it."""
        self._close()

    @property
    def must_end(self) -> bool:
        """Whether the pass has to be ended."""
        return self._killed_by is not None

    def failure(self) -> Failure | None:
        """Why the pass was ended; None where this did not end it."""
        stall = self._killed_by
        if stall is None:
            return None
        sentence, *stack = stall.lines()
        rank = stall.late[0].rank if len(stall.late) == 1 else None
        return Failure(reason=f"ended by --stall-kill: {sentence}", rank=rank, lines=stack)

    def _close(self) -> None:
        if self._open is not None:
            stall, since_s = self._open
            lasted_s = round(time.monotonic() - since_s, 1)
            self._write({"kind": "over", "number": stall.number, "lasted_s": lasted_s})
            self._open = None

    def _stall(self, states: dict[int, dict[str, Any]], waiting: list[dict[str, Any]]) -> Stall:
        step = min(int(state["step"]) for state in waiting)
        handed_over = list(
            dict.fromkeys(name for one in waiting if one["step"] == step for name in one["ready"])
        )
        members = [int(state["rank"]) for state in waiting]
        late = [
            self._late(rank, states.get(rank), step, handed_over)
            for rank in range(self._size)
            if rank not in members and not _waits(states.get(rank), 0.0, step)
        ]
        return Stall(
            number=self._number,
            segment=str(waiting[0]["segment"]),
            step=step,
            waited_s=max(float(state["still_s"]) for state in waiting),
            waiting=[rank for rank in range(self._size) if rank not in {one.rank for one in late}],
            late=late,
        )

    def _late(
        self, rank: int, state: dict[str, Any] | None, step: int, handed_over: list[str]
    ) -> LateRank:
        if state is None or not _is_still(state):
            told = ABSENT if state is None else _state_of_process(state)
            return LateRank(rank=rank, state=told, step=-1, phase="", tensors=handed_over)
        ready = set(state["ready"]) if state["step"] == step else set()
        return LateRank(
            rank=rank,
            state=ENDED if state["ended"] else RUNS,
            step=int(state["step"]),
            phase=str(state["phase"]) if state["is_open"] else "",
            tensors=[name for name in handed_over if name not in ready],
            stack=[] if state["ended"] else training_stack(self._paths.stack_file(rank)),
        )

    def _states(self) -> dict[int, dict[str, Any]]:
        found = {}
        for rank in range(self._size):
            state = _read(self._paths.watch_file(rank))
            if state is not None:
                found[rank] = state
        return found

    def _write(self, record: dict[str, Any]) -> None:
        # It is told all the same, and a full disk ends the sweep behind this pass by itself.
        with contextlib.suppress(OSError), self._paths.stalls.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Not there yet, or not readable over a network just now: the next look sees it.
        return None
    return state if isinstance(state, dict) else None


def _is_still(state: dict[str, Any]) -> bool:
    return float(state["still_s"]) > 0 or bool(state["ended"])


def _state_of_process(state: dict[str, Any]) -> str:
    """What this host knows of the process of a rank that says nothing."""
    if state["hostname"] != socket.gethostname():
        return SILENT
    try:
        status = Path(f"/proc/{int(state['pid'])}/stat").read_text(encoding="utf-8")
    except OSError:
        return GONE
    letter = status.rpartition(")")[2].split()[0]
    return {"T": STOPPED, "t": STOPPED, "Z": GONE}.get(letter, SILENT)


def _waits(state: dict[str, Any] | None, for_s: float, step: int | None = None) -> bool:
    if state is None or not state["waits"] or state["ended"]:
        return False
    return float(state["still_s"]) >= for_s and step in (None, state["step"])


def _ranks(ranks: list[int]) -> str:
    named = ", ".join(map(str, ranks[:MAX_NAMED_RANKS]))
    more = f" and {len(ranks) - MAX_NAMED_RANKS} more" if len(ranks) > MAX_NAMED_RANKS else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {named}{more}"


def _late(late: LateRank) -> str:
    where = {
        RUNS: f"is in {late.phase or 'no phase'} of step {late.step}",
        ENDED: "has ended its recording",
        ABSENT: "has not begun to record",
        GONE: "has ended",
        STOPPED: "was stopped by a signal",
        SILENT: "does not stand still, or runs no Python",
    }[late.state]
    if not late.tensors:
        return f"rank {late.rank}, which {where}"
    named = ", ".join(late.tensors[:MAX_NAMED_TENSORS])
    more = len(late.tensors) - MAX_NAMED_TENSORS
    others = f" and {units.count(more)} more" if more > 0 else ""
    return f"rank {late.rank}, which {where} and has not handed over {named}{others}"


def _local_time_ns() -> int:
    offset = dt.datetime.now().astimezone().utcoffset() or dt.timedelta()
    return time.time_ns() + int(offset.total_seconds()) * 1_000_000_000
