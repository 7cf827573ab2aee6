"""A stall as users read it: what, where and since when, then what to do, then the stack."""

import datetime as dt
from dataclasses import dataclass, field

from hvdprof import units
from hvdprof.launch.diagnose.watch_state import (
    ABSENT,
    ENDED,
    GONE,
    LEFT,
    MAX_NAMED_RANKS,
    MAX_NAMED_TENSORS,
    RUNS,
    SILENT,
    STOPPED,
    RankWait,
    UnequalBatches,
    script_place,
    waits_text,
)
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.launcher_failures import UNEQUAL
from hvdprof.rundir.recording.stall_format import (
    CHECKPOINT_FIX,
    MISMATCH,
    UNEQUAL_FIX,
    UNTIL_END,
    writes_checkpoint,
)

_HUNG = (
    "every rank has submitted. Check the network (hvdprof net) and the log of NCCL or Gloo{rest}."
)
_MISMATCHED = (
    "call the same collectives in the same order on every rank: compare the conditions that lead "
    "to these lines, and the number of batches of each rank."
)
_READ_STACK = "read its stack below: slow input, a checkpoint or a lock."
_ACTIONS = {
    RUNS: "{what} Live: `py-spy dump --pid {pid}` on {host}.",
    LEFT: UNEQUAL_FIX,
    ENDED: "look for unequal numbers of batches per rank, or an early exit of {rank}.",
    ABSENT: "check that {rank} started: its host, its first lines in stderr.txt of the pass.",
    GONE: "end the job; stderr.txt of the pass has the last lines of {rank}.",
    STOPPED: "run `kill -CONT {pid}` on {host}.",
    SILENT: "see whether it is slow or in native code: `py-spy dump --pid {pid}` on {host}.",
}
"""What to do about a stalled rank, by its state."""

_WITHOUT_PROCESS = {
    RUNS: "{what}",
    GONE: "read the last lines of {rank} in stderr.txt of the pass.",
    STOPPED: "look for what sent SIGSTOP to {rank}.",
    SILENT: "look at {rank} while it hangs: it was slow, or in native code.",
}
"""The same where the process is unknown, or gone with the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledRank:
    """A rank that others wait for.

    ``state`` is ``runs`` (it does something else, in ``phase``), ``left`` (it has ended its loop,
    and the others have not), ``ended`` (its recording is over), ``absent`` (it has not begun to
    record), ``gone`` (its process has ended), ``stopped`` (by a signal) or ``silent`` (it makes
    progress slowly, holds Python's lock, or is on another host and one of the others). ``tensors``
    are the gradients of that step that others have submitted and it has not; ``stack`` are the
    lines of its training thread, innermost first. ``host`` is empty and ``pid`` None where the rank
    has not written a state.
    """

    rank: int
    state: str
    step: int
    phase: str
    tensors: list[str]
    stack: list[str] = field(default_factory=list)
    host: str = ""
    pid: int | None = None

    @property
    def name(self) -> str:
        """The rank with its host, ``rank 1 on node3``."""
        return f"rank {self.rank} on {self.host}" if self.host else f"rank {self.rank}"

    def activity(self) -> str:
        """What the rank does, and which gradients it lacks."""
        place = script_place(self.stack)
        at = f" at {place}" if place else ""
        state = {
            RUNS: f"in {self.phase or 'no phase'} of step {self.step}{at}",
            LEFT: f"behind the loop{at}",
            ENDED: "has ended its recording",
            ABSENT: "has not begun to record",
            GONE: "has ended",
            STOPPED: "was stopped by a signal",
            SILENT: "still running, or not in Python",
        }[self.state]
        if not self.tensors:
            return state
        named = ", ".join(self.tensors[:MAX_NAMED_TENSORS])
        num_more = len(self.tensors) - MAX_NAMED_TENSORS
        more = f" and {units.count(num_more)} more" if num_more > 0 else ""
        return f"{state}; has not submitted {named}{more}"

    def stack_lines(self) -> list[str]:
        """The stack with a line above it; empty where none was written."""
        if not self.stack:
            return []
        return [
            f"stack of rank {self.rank}, innermost first:",
            *(f"  {frame}" for frame in self.stack),
        ]

    def action(self, *, at_end: bool = False) -> str:
        """What to do about it while the job runs, or at its end; one sentence."""
        # A command that needs a process is proposed where it is known, and still there.
        is_reachable = not at_end and bool(self.host) and self.pid is not None
        actions = _ACTIONS if is_reachable else {**_ACTIONS, **_WITHOUT_PROCESS}
        rank = f"rank {self.rank}"
        what = CHECKPOINT_FIX if writes_checkpoint(self.stack) else _READ_STACK
        return actions[self.state].format(rank=rank, pid=self.pid, host=self.host, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Ranks that wait in a collective, and the ranks that they wait for.

    ``late`` is empty where all ranks wait: then ``waits`` say what each waits in, and the
    collective is hung where these are empty. ``time_ns`` is when the stall was seen, local time
    since 1970 as if it were UTC; ``waited_s`` the longest wait by then. ``at_end`` says that the
    job ended during the stall. ``unequal`` is given where ``late`` are ranks with fewer batches.
    """

    number: int
    segment: str
    step: int
    time_ns: int
    waited_s: float
    waiting: list[int]
    late: list[StalledRank]
    waits: list[RankWait] = field(default_factory=list)
    at_end: bool = False
    unequal: UnequalBatches | None = None

    @property
    def late_rank(self) -> int | None:
        """The rank that all others wait for; None where there is not exactly one."""
        return self.late[0].rank if len(self.late) == 1 else None

    def sentence(self) -> str:
        """What happened, where and since when, in one line."""
        began = self.time_ns / 1e9 - self.waited_s
        clock = dt.datetime.fromtimestamp(began, dt.UTC).strftime("%H:%M:%S")
        waited = "have been waiting" if len(self.waiting) > 1 else "has been waiting"
        since = f"since {clock}"
        if self.at_end:
            waited, since = "waited", f"{since} {UNTIL_END}"
        waited = f"{waited} {units.seconds(self.waited_s)}"
        if self.unequal is not None:
            return f"stall {since}: {self._unequal_clause(self.unequal, waited)}"
        what = f"stall at step {self.step} {since}: {ranks_named(self.waiting)} {waited}"
        if self.waits:
            return f"{what} {MISMATCH}: {waits_text(self.waits)}"
        if not self.late:
            return f"{what}; the collective is hung"
        stalled = (f"{rank.name} ({rank.activity()})" for rank in self.late[:MAX_NAMED_RANKS])
        num_more = len(self.late) - MAX_NAMED_RANKS
        more = f" and {num_more} more" if num_more > 0 else ""
        return f"{what} for {', '.join(stalled)}{more}"

    def _unequal_clause(self, unequal: UnequalBatches, waited: str) -> str:
        ended = ", ".join(
            f"{rank.name} ({rank.activity()})" if rank.stack else rank.name
            for rank in self.late[:MAX_NAMED_RANKS]
        )
        have = "have" if len(unequal.ended) > 1 else "has"
        return (
            f"{UNEQUAL}: {ended} {have} ended the training loop after {unequal.num_steps} steps, "
            f"{ranks_named(unequal.waiting)} {waited} in step {unequal.step}"
        )

    def action(self) -> str:
        """What to do: about the first stalled rank, or about the collectives."""
        if self.unequal is not None:
            return UNEQUAL_FIX
        if self.waits:
            return _MISMATCHED
        first = self._first()
        if first is None:
            return _HUNG.format(rest="" if self.at_end else ", then end the job")
        return f"{first.name}: {first.action(at_end=self.at_end)}"

    def lines(self) -> list[str]:
        """What happened, what to do, and the stack of the rank to look at where it has one."""
        lines = [self.sentence(), f"to do: {self.action()}"]
        first = self._first()
        return lines + (first.stack_lines() if first is not None else [])

    def _first(self) -> StalledRank | None:
        with_stack = (rank for rank in self.late if rank.stack)
        return next(with_stack, self.late[0] if self.late else None)
