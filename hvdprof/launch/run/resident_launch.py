"""One resident launch: its processes run in its turns and are stopped between them."""

import json
import time
from collections import deque
from collections.abc import Sequence

from hvdprof.collect.turn_gate import SETTLING_STEPS, TURNS
from hvdprof.errors import StorageError
from hvdprof.launch.processes.launch_process import (
    POLL_INTERVAL_S,
    Launch,
    LaunchOutcome,
    LaunchProcesses,
    ProgressTimeout,
)
from hvdprof.launch.processes.marked_processes import memory_bytes
from hvdprof.launch.run.turn_socket import ApartWatch, SegmentTurns, TurnSocket, TurnStanding
from hvdprof.machine.load import CpuUse, CpuUseResult, own_cpu_seconds, processes_cpu_seconds
from hvdprof.rundir.launch_format import TurnLine
from hvdprof.rundir.plan import Segment
from hvdprof.rundir.written_file import open_run_file

GLOO_TIMEOUT, LONG_S = "HOROVOD_GLOO_TIMEOUT_SECONDS", "86400"
"""Gloo's 30 s also pass while the ranks are stopped, within a cycle of Horovod."""


class ResidentLaunch:
    """A launch whose ranks wait at their gates when it is not their turn.

    Args:
        launch: The launch, about to start.
        segments: What its ranks train, in this order.
        turn_s: The length that a turn aims at.
        warn_s: Seconds after which a stall is reported, 0 for never; those of
            ``resident_warn_s`` count.
    """

    def __init__(
        self, launch: Launch, segments: Sequence[Segment], turn_s: float, *, warn_s: float = 0.0
    ) -> None:
        self.launch = launch
        self._left = deque(SegmentTurns(segment, turn_s) for segment in segments)
        self._socket = TurnSocket(launch.job.size)
        self._processes = LaunchProcesses(is_on_this_host=launch.is_on_this_host)
        self._standing: TurnStanding | None = None
        self._timeout: ProgressTimeout | None = None
        self._next_look_s = 0.0
        self._is_hung = False
        self._is_over = False
        self._runs_on = False
        self._has_stood = False
        self._never_stood = False
        self._is_alone = False
        self._apart = ApartWatch(warn_s)
        self._uses: list[CpuUseResult] = []

    @property
    def mark(self) -> str:
        """What marks its processes in their environment."""
        return self._processes.mark

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the segments that are left, in their order; none where it is over."""
        return () if self._is_over else tuple(turns.segment.model for turns in self._left)

    @property
    def outcome(self) -> LaunchOutcome:
        """How it ended; to be asked after ``end``."""
        return self._processes.outcome(hung=self._is_hung)

    @property
    def stood_apart(self) -> bool:
        """Whether its ranks stopped at different steps, so that it ran on without turns."""
        return self._apart.has_begun and self._runs_on

    @property
    def never_stood(self) -> bool:
        """Whether it ended well without any turn, as where its ranks cannot connect."""
        return self._never_stood

    @property
    def ran_alone(self) -> bool:
        """Whether it was the only launch on the host from its start to its end."""
        return self._is_alone

    @property
    def memory_bytes(self) -> int:
        """The memory of its ranks and of what they have started; 0 where it is over."""
        return memory_bytes(self._socket.process_ids())

    @property
    def use(self) -> CpuUseResult | None:
        """What happened on the processors in its turns; None where that is unknown."""
        length_s = sum(use.wall_s for use in self._uses)
        if not length_s:
            return None
        return CpuUseResult(
            other_cores=sum(use.other_cores * use.wall_s for use in self._uses) / length_s,
            steal_share=sum(use.steal_share * use.wall_s for use in self._uses) / length_s,
            wall_s=length_s,
        )

    def start(self) -> None:
        """Start its processes; ``arrives`` says when all ranks stand at their first gate.

        Raises:
            EnvironmentNotReadyError: The launcher could not be started.
            StorageError: The files for its output cannot be written.
        """
        paths = self.launch.paths
        self._processes.start(
            self.launch.command,
            {GLOO_TIMEOUT: LONG_S, **self.launch.environment, TURNS: self._socket.address},
            stdout=paths.stdout,
            stderr=paths.stderr,
        )
        self._expect()

    def arrives(self, wait_s: float = POLL_INTERVAL_S) -> bool:
        """Whether all ranks are stopped at their gates, or the launch is over, within that time."""
        if self._is_over or self._standing is not None:
            return True
        self._socket.wait(wait_s)
        if self._runs_on:
            self._socket.release(self._left[0].steps_to_end())
        elif (standing := self._socket.standing()) is not None:
            self._standing, self._has_stood = standing, True
            self._apart.end()
            self._socket.stop_ranks()
            return True
        elif self._apart.is_over(self._socket.num_waiting):
            self.run_on()
        if self._processes.has_ended() or self._is_outlived():
            self.launch.watch.progress()
            if self._is_started_again():
                return False
            self.end()
            waits = self._has_stood or self._runs_on
            self._never_stood = not waits and self.outcome.exit_code == 0
        elif self._is_timed_out():
            self._is_hung = True
            self.end()
        return self._is_over

    @property
    def needs_turn(self) -> bool:
        """Whether its segment has not been measured long enough."""
        return self._standing is not None and self._next_steps(self._standing) > 0

    def leave_segment(self) -> None:
        """End the segment; ``arrives`` says when the ranks stand at the gate of the next one."""
        if self._standing is not None:
            self._left.popleft()
            self._proceed(0)

    def take_turn(self, round_number: int) -> None:
        """Train one turn; all that is left where the ranks turn out not to stop together.

        Raises:
            StorageError: The turn cannot be recorded.
        """
        assert self._standing is not None
        standing = self._standing
        num_steps = self._next_steps(standing)
        use = CpuUse()
        use.start()
        own_s, begin_ns = self._own_cpu_s(), time.monotonic_ns()
        self._proceed(num_steps)
        while not self.arrives():
            pass
        # Bounded by nothing, a script ends within a turn: its last steps count.
        if self._is_over and not (self._left[0].is_unbounded and not self._runs_on):
            return
        length_ns = time.monotonic_ns() - begin_ns
        measured = use.stop(own_cpu_s=self._own_cpu_s() - own_s)
        if measured is not None:
            self._uses.append(measured)
        self._left[0].add(num_steps, length_ns / 1e9)
        self._record(
            {
                "segment": standing.segment,
                "round": round_number,
                "first_step": standing.step + SETTLING_STEPS,
                "num_steps": num_steps,
                "monotonic_ns": begin_ns,
                "dur_ns": length_ns,
                "other_cores": None if measured is None else round(measured.other_cores, 3),
                "steal_share": None if measured is None else round(measured.steal_share, 4),
            }
        )

    def run_on(self) -> None:
        """Let it train to its end; ``arrives`` says when that is.

        Raises:
            StorageError: That its steps count from here on cannot be recorded.
        """
        self._runs_on, self._standing = True, None
        turns, first = self._left[0], self._socket.first_boundary()
        if turns.num_turns and first is not None:
            self._record(
                {
                    "segment": turns.segment.id,
                    "round": turns.num_turns,
                    "first_step": first + SETTLING_STEPS,
                    "num_steps": turns.steps_to_end(),
                    "monotonic_ns": time.monotonic_ns(),
                    "dur_ns": 0,
                    "other_cores": None,
                    "steal_share": None,
                }
            )
        self._expect()
        self._socket.resume_ranks()

    def run_alone(self) -> None:
        """Let it train to its end while no other launch has started.

        Raises:
            StorageError: A turn cannot be recorded.
        """
        self._is_alone = True
        if not self._is_over:
            self.run_on()

    def end(self) -> None:
        """End every process that is left; nothing stays stopped."""
        if not self._is_over:
            try:
                self._socket.resume_ranks()
            finally:
                self._processes.end()
                self._socket.close()
                self._is_over = True

    def _next_steps(self, standing: TurnStanding) -> int:
        return self._left[0].next_steps(standing.step_s)

    def _proceed(self, num_steps: int) -> None:
        self._standing = None
        self._expect()
        self._socket.resume_ranks()
        self._socket.give_turn(num_steps)

    def _expect(self) -> None:
        """From here on the ranks are to make progress."""
        self._timeout = ProgressTimeout(self.launch.watch)
        self._next_look_s = time.monotonic() + POLL_INTERVAL_S

    def _is_timed_out(self) -> bool:
        if self._timeout is None or time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + POLL_INTERVAL_S
        return self._timeout.is_over()

    def _is_outlived(self) -> bool:
        """Whether all ranks have exited, and only what they have left behind still runs."""
        if not self.launch.watch.have_exited():
            return False
        self._processes.note_outlived()
        return True

    def _is_started_again(self) -> bool:
        """Whether the launcher failed before any rank began, and was started once more."""
        if self._has_stood:
            return False
        self._processes.end()
        if not self.launch.watch.again(self._processes.outcome(hung=False).exit_code):
            return False
        self.start()
        return True

    def _own_cpu_s(self) -> float:
        return own_cpu_seconds() + processes_cpu_seconds(self._socket.process_ids())

    def _record(self, line: TurnLine) -> None:
        path = self.launch.paths.turns
        try:
            with open_run_file(path) as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise StorageError(f"Could not write {path}: {error.strerror}.") from error
