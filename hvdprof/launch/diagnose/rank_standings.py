"""Where the ranks of a pass are, by what each writes about itself, and who waits for whom."""

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.watch_state import (
    ABSENT,
    ENDED,
    LEFT,
    RUNS,
    RankWait,
    WatchState,
    different_waits,
    script_place,
    unequal_batches,
)
from hvdprof.rundir.failures.stack_text import StackReader
from hvdprof.rundir.layout import PassPaths

States = Mapping[int, WatchState]


@dataclass(frozen=True, slots=True)
class RankStandings:
    """Reads the files that the ranks of a pass write, one file each and their stacks."""

    paths: PassPaths
    size: int

    def read(self) -> dict[int, WatchState]:
        """The states of the ranks that have written one."""
        states = ((rank, WatchState.read(self.paths.watch_file(rank))) for rank in self._ranks)
        return {rank: state for rank, state in states if state is not None}

    def stall(self, states: States, waiting: Sequence[WatchState], number: int) -> Stall:
        """The stall in which ranks wait, in the earliest of their steps."""
        step = min(state.step for state in waiting)
        submitted = list(
            dict.fromkeys(name for state in waiting if state.step == step for name in state.ready)
        )
        unequal = unequal_batches(states)
        have_left = set(unequal.ended) if unequal else set()
        members = {state.rank for state in waiting}
        late = {}
        for rank in self._ranks:
            state = states.get(rank)
            waits = rank in members or (state is not None and state.is_waiting(0.0, step))
            if not waits or rank in have_left:
                late[rank] = self._stalled_rank(rank, state, step, submitted)
            if rank in have_left:
                late[rank] = replace(late[rank], state=LEFT, tensors=[])
        return Stall(
            number=number,
            segment=waiting[0].segment,
            step=step,
            time_ns=local_time_ns(),
            waited_s=max(state.still_s for state in waiting),
            waiting=[rank for rank in self._ranks if rank not in late],
            late=list(late.values()),
            waits=[] if late else self._waits(states),
            unequal=unequal,
        )

    def blocked(self) -> list[StalledRank]:
        """The ranks whose step has not ended for long, with their stacks; for any pause."""
        return [
            self._stalled_rank(rank, state, state.step, [])
            for rank, state in sorted(self.read().items())
            if state.is_blocked and not state.ended
        ]

    def _waits(self, states: States) -> list[RankWait]:
        """What each rank waits in, where that is not the same."""
        waits = [
            RankWait(
                rank=rank,
                step=state.step,
                collective=state.collective,
                place=script_place(training_stack(self.paths.stack_file(rank))),
            )
            for rank, state in sorted(states.items())
        ]
        # The gradients of different steps do not compare.
        is_one_step = len({wait.step for wait in waits}) == 1
        ready = {rank: state.ready for rank, state in states.items()} if is_one_step else {}
        return different_waits(waits, ready)

    def _stalled_rank(
        self, rank: int, state: WatchState | None, step: int, submitted: list[str]
    ) -> StalledRank:
        if state is None:
            return StalledRank(rank=rank, state=ABSENT, step=-1, phase="", tensors=submitted)
        if not state.is_blocked:
            return StalledRank(
                rank=rank,
                state=state.of_process(),
                step=-1,
                phase="",
                tensors=submitted,
                host=state.hostname,
                pid=state.pid,
            )
        ready = set(state.ready) if state.step == step else set()
        return StalledRank(
            rank=rank,
            state=ENDED if state.ended else RUNS,
            step=state.step,
            phase=state.phase if state.is_open else "",
            tensors=[name for name in submitted if name not in ready],
            stack=[] if state.ended else training_stack(self.paths.stack_file(rank)),
            host=state.hostname,
            pid=state.pid,
        )

    @property
    def _ranks(self) -> range:
        return range(self.size)


def local_time_ns() -> int:
    """Local time since 1970 as if it were UTC, ns."""
    offset = dt.datetime.now().astimezone().utcoffset() or dt.timedelta()
    return time.time_ns() + int(offset.total_seconds()) * 1_000_000_000


MAX_LINES = 12


def training_stack(path: Path) -> list[str]:
    """The frames of the main thread, innermost first, at most ``MAX_LINES``; empty without a file.

    That thread is the last one: the watchdog begins with itself.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    stack = StackReader()
    for line in text.splitlines():
        stack.take(line)
    return stack.threads[-1].frames[:MAX_LINES] if stack.threads else []
