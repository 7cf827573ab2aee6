"""Detects, from the launching side, ranks that wait in a collective for a stalled rank.

Each rank without progress writes where it is (``hvdprof.collect.watchdog``). It is a stall where at
least one rank waits in a collective for longer than asked for, or still waits when the job is
ended. Ranks that all pause alike, for input or a checkpoint, wait for no other rank: that is no
stall.
"""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

from hvdprof.launch.diagnose.rank_standings import RankStandings, States, local_time_ns
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.watch_state import SILENT, UnequalBatches, WatchState, unequal_batches
from hvdprof.rundir.failures.launcher_failures import STALL_KILL, Failure, FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.stall_format import StallLine, StallOverLine
from hvdprof.rundir.written_file import open_run_file

GRACE_S = 3.0
"""A stalled rank writes its state within one look of its own; the report waits that long for it."""

LEAST_WAIT_S = 5.0
"""A wait that the end of the job cuts off is a stall from then on: a checkpoint takes as long."""


@dataclass(slots=True)
class _Running:
    """A stall that is not over; ``since_s`` on the monotonic clock."""

    stall: Stall
    since_s: float
    is_reported: bool = False


class StallWatch:
    """Watches the ranks of one pass.

    Args:
        paths: The files of the pass.
        size: Number of ranks.
        warn_s: Seconds of waiting after which a stall is reported, once.
        kill_s: Seconds after which the pass must be ended, None for never.
        on_stall: Called with each stall.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        paths: PassPaths,
        size: int,
        *,
        warn_s: float,
        kill_s: float | None,
        on_stall: Callable[[Stall], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._standings = RankStandings(paths, size)
        self._warn_s = warn_s
        self._least_s = min(LEAST_WAIT_S, 0.8 * warn_s)
        self._kill_s = kill_s
        self._on_stall = on_stall
        self._clock = clock
        self._looked_s, self._looked_ns = clock(), local_time_ns()
        self._number = 0
        self._running: _Running | None = None
        self._seen: States = {}
        self._killed_by: Stall | None = None

    def look(self) -> None:
        """Look at the files of all ranks once; report a stall that is new, record its end."""
        states = self._standings.read()
        if self._is_cut_off(states):
            return
        self._looked_s, self._looked_ns = self._clock(), local_time_ns()
        waiting = [state for state in states.values() if state.is_waiting(self._least_s)]
        if not waiting:
            self._close()
            return
        running = self._follow(states, waiting)
        if not running.is_reported and self._is_to_report(running.stall, waiting):
            self._report(running)
        lasted_s = self._looked_s - running.since_s
        if self._kill_s is not None and running.is_reported and lasted_s >= self._kill_s:
            self._killed_by = running.stall

    def cut_off(self) -> Stall | None:
        """The stall in which the job was ended, or ended itself; None where no rank waited."""
        if self._running is None:
            # The ranks may have written it since the last look.
            self.look()
        running = self._running
        if running is None:
            return None
        waited_s = round(self._looked_s - running.since_s, 3)
        return replace(running.stall, waited_s=waited_s, time_ns=self._looked_ns, at_end=True)

    def report_cut_off(self) -> None:
        """Report the stall that the end of the job cut off, where it was too short before."""
        stall = self.cut_off()
        running = self._running
        if running is None or stall is None:
            return
        running.stall = stall
        if not running.is_reported:
            self._report(running)

    def blocked(self) -> list[StalledRank]:
        """The ranks whose step has not ended for long, with their stacks; for any pause."""
        return self._standings.blocked()

    def unequal(self) -> UnequalBatches | None:
        """The ranks with fewer batches, by what all ranks wrote last; None where there are none."""
        return unequal_batches(self._standings.read())

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
        return Failure(
            reason=f"{STALL_KILL}{sentence}",
            kind=FailureKind.STALLED,
            rank=stall.late_rank,
            lines=lines,
        )

    def _is_cut_off(self, states: States) -> bool:
        """Whether a rank that waited has raised, as by a timeout: the stall stays as it was."""
        if self._running is None:
            return False
        waited = [states[rank] for rank in self._running.stall.waiting if rank in states]
        return any(state.failed for state in waited)

    def _follow(self, states: States, waiting: Sequence[WatchState]) -> _Running:
        """The stall of the ranks that wait, by their latest states."""
        running = self._running
        step = min(state.step for state in waiting)
        if running is not None and running.stall.step != step:
            self._close()
            running = None
        if running is None:
            stall = self._standings.stall(states, waiting, self._number)
            running = self._running = _Running(stall, self._looked_s - stall.waited_s)
        elif states != self._seen:
            running.stall = self._standings.stall(states, waiting, self._number)
        self._seen = states
        return running

    def _is_to_report(self, stall: Stall, waiting: Sequence[WatchState]) -> bool:
        if not any(state.is_waiting(self._warn_s) for state in waiting):
            return False
        is_unclear = any(rank.state == SILENT for rank in stall.late)
        return not is_unclear or stall.waited_s >= self._warn_s + GRACE_S

    def _report(self, running: _Running) -> None:
        running.is_reported = True
        self._write(cast(StallLine, {"kind": "stall", **asdict(running.stall)}))
        self._on_stall(running.stall)

    def _close(self) -> None:
        running, self._running = self._running, None
        if running is None or not running.is_reported:
            return
        lasted_s, at_end = round(self._looked_s - running.since_s, 1), running.stall.at_end
        self._write(
            {"kind": "over", "number": self._number, "lasted_s": lasted_s, "at_end": at_end}
        )
        self._number += 1

    def _write(self, record: StallLine | StallOverLine) -> None:
        # The stall is reported all the same, and a full disk ends the sweep after this pass.
        with contextlib.suppress(OSError), open_run_file(self._paths.stalls) as file:
            file.write(json.dumps(record) + "\n")
