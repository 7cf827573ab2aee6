"""Detects, from the launching side, ranks that wait in a collective for a stalled rank.

Each rank without progress writes where it is (``hvdprof.collect.watchdog``). It is a stall where at
least one rank waits in a collective for longer than asked for. Ranks that all pause alike, for
input or a checkpoint, wait for no other rank: that is no stall.
"""

import contextlib
import datetime as dt
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from hvdprof.launch.diagnose.rank_wait import RankWait, different_waits, script_place
from hvdprof.launch.diagnose.stack_text import training_stack
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.watch_state import ABSENT, ENDED, RUNS, SILENT, WatchState
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Failure
from hvdprof.rundir.run_file import open_run_file
from hvdprof.rundir.stall_format import StallLine, StallOverLine

GRACE_S = 3.0
"""A stalled rank writes its state within one look of its own; the report waits that long for it."""


class StallWatch:
    """Watches the ranks of one pass.

    Args:
        paths: The files of the pass.
        size: Number of ranks.
        warn_s: Seconds of waiting after which a stall is reported, once.
        kill_s: Seconds after which the pass must be ended, None for never.
        on_stall: Called with each stall.
    """

    def __init__(
        self,
        paths: PassPaths,
        size: int,
        *,
        warn_s: float,
        kill_s: float | None,
        on_stall: Callable[[Stall], None],
    ) -> None:
        self._paths = paths
        self._size = size
        self._warn_s = warn_s
        self._kill_s = kill_s
        self._on_stall = on_stall
        self._number = 0
        self._open: tuple[Stall, float] | None = None
        self._killed_by: Stall | None = None

    def look(self) -> None:
        """Look at the files of all ranks once; report a stall that is new, record its end."""
        states = self._states()
        waiting = [state for state in states.values() if state.is_waiting(self._warn_s)]
        if not waiting:
            self._close()
            return
        step = min(state.step for state in waiting)
        if self._open is None or self._open[0].step != step:
            self._close()
            stall = self._stall(states, waiting, step)
            is_unclear = any(rank.state == SILENT for rank in stall.late)
            if is_unclear and stall.waited_s < self._warn_s + GRACE_S:
                return
            self._number += 1
            self._open = stall, time.monotonic() - stall.waited_s
            self._write(cast(StallLine, {"kind": "stall", **asdict(stall)}))
            self._on_stall(stall)
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
        sentence, *lines = stall.lines()
        rank = stall.late[0].rank if len(stall.late) == 1 else None
        return Failure(reason=f"ended by --stall-kill: {sentence}", rank=rank, lines=lines)

    def _close(self) -> None:
        if self._open is not None:
            stall, since_s = self._open
            lasted_s = round(time.monotonic() - since_s, 1)
            self._write({"kind": "over", "number": stall.number, "lasted_s": lasted_s})
            self._open = None

    def _stall(
        self, states: Mapping[int, WatchState], waiting: Sequence[WatchState], step: int
    ) -> Stall:
        submitted = list(
            dict.fromkeys(name for state in waiting if state.step == step for name in state.ready)
        )
        members = {state.rank for state in waiting}
        late = {}
        for rank in self._ranks:
            state = states.get(rank)
            waits = rank in members or (state is not None and state.is_waiting(0.0, step))
            if not waits:
                late[rank] = self._stalled_rank(rank, state, step, submitted)
        return Stall(
            number=self._number,
            segment=waiting[0].segment,
            step=step,
            time_ns=_local_time_ns(),
            waited_s=max(state.still_s for state in waiting),
            waiting=[rank for rank in self._ranks if rank not in late],
            late=list(late.values()),
            waits=[] if late else self._waits(states),
        )

    def _waits(self, states: Mapping[int, WatchState]) -> list[RankWait]:
        """What each rank waits in, where that is not the same."""
        waits = [
            RankWait(
                rank=rank,
                step=state.step,
                collective=state.collective,
                place=script_place(training_stack(self._paths.stack_file(rank))),
            )
            for rank, state in sorted(states.items())
        ]
        # The gradients of different steps do not compare.
        is_one_step = len({one.step for one in waits}) == 1
        ready = {rank: state.ready for rank, state in states.items()} if is_one_step else {}
        return different_waits(waits, ready)

    def _stalled_rank(
        self, rank: int, state: WatchState | None, step: int, submitted: list[str]
    ) -> StalledRank:
        if state is None:
            return StalledRank(rank=rank, state=ABSENT, step=-1, phase="", tensors=submitted)
        if not state.is_still:
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
            stack=[] if state.ended else training_stack(self._paths.stack_file(rank)),
            host=state.hostname,
            pid=state.pid,
        )

    def _states(self) -> dict[int, WatchState]:
        states = ((rank, WatchState.read(self._paths.watch_file(rank))) for rank in self._ranks)
        return {rank: state for rank, state in states if state is not None}

    @property
    def _ranks(self) -> range:
        return range(self._size)

    def _write(self, record: StallLine | StallOverLine) -> None:
        # The stall is reported all the same, and a full disk ends the sweep after this pass.
        with contextlib.suppress(OSError), open_run_file(self._paths.stalls) as file:
            file.write(json.dumps(record) + "\n")


def _local_time_ns() -> int:
    offset = dt.datetime.now().astimezone().utcoffset() or dt.timedelta()
    return time.time_ns() + int(offset.total_seconds()) * 1_000_000_000
