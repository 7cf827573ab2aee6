"""One resident launch: its processes run in its turns and are stopped between them.

Tested in ``tests/launch/turns/test_resident_launches.py``.
"""

import json
import time
from collections import deque
from collections.abc import Sequence

from hvdprof.collect.turn_gate import SETTLING_STEPS, TURNS
from hvdprof.errors import StorageError
from hvdprof.launch.processes.launch_process import (
    POLL_INTERVAL_S,
    Launch,
    LaunchProcesses,
    Outcome,
    ProgressTimeout,
)
from hvdprof.launch.turns.turn_schedule import SegmentTurns
from hvdprof.launch.turns.turn_socket import Standing, TurnSocket
from hvdprof.machine.load import CpuUse, CpuUseResult, own_cpu_seconds, processes_cpu_seconds
from hvdprof.rundir.plan import Segment
from hvdprof.rundir.turn_format import TurnLine


class ResidentLaunch:
    """A launch whose ranks wait at their gates when it is not their turn.

    Args:
        launch: The launch, about to start.
        segments: What its ranks train, in this order.
        turn_s: The length that a turn aims at.
    """

    def __init__(self, launch: Launch, segments: Sequence[Segment], turn_s: float) -> None:
        self._launch = launch
        self._left = deque(SegmentTurns(segment, turn_s) for segment in segments)
        self._socket = TurnSocket(launch.job.size)
        self._processes = LaunchProcesses()
        self._standing: Standing | None = None
        self._timeout: ProgressTimeout | None = None
        self._next_look_s = 0.0
        self._is_hung = False
        self._is_over = False
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
    def outcome(self) -> Outcome:
        """How it ended; to be asked after ``end``."""
        return self._processes.outcome(hung=self._is_hung)

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
        paths = self._launch.paths
        self._processes.start(
            self._launch.command,
            {**self._launch.environment, TURNS: self._socket.address},
            stdout=paths.stdout,
            stderr=paths.stderr,
        )
        self._expect()

    def arrives(self, wait_s: float = POLL_INTERVAL_S) -> bool:
        """Whether all ranks stand at their gates, stopped, or the launch is over.

        Args:
            wait_s: The longest time to wait for that.
        """
        if self._is_over or self._standing is not None:
            return True
        self._socket.wait(wait_s)
        self._standing = self._socket.standing()
        if self._standing is not None:
            self._socket.stop_ranks()
            return True
        if self._processes.has_ended():
            self._launch.watch.progress()
            self.end()
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
        """Train one turn.

        Raises:
            StorageError: The turn cannot be recorded.
        """
        assert self._standing is not None
        standing = self._standing
        num_steps = self._next_steps(standing)
        use, ranks = CpuUse(), self._socket.process_ids()
        use.start()
        own_s, begin_ns = self._own_cpu_s(ranks), time.monotonic_ns()
        self._proceed(num_steps)
        while not self.arrives():
            pass
        if self._is_over:
            return
        length_ns = time.monotonic_ns() - begin_ns
        measured = use.stop(own_cpu_s=self._own_cpu_s(ranks) - own_s)
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

    def end(self) -> None:
        """End every process that is left; nothing stays stopped."""
        if not self._is_over:
            self._socket.resume_ranks()
            self._processes.end()
            self._socket.close()
            self._is_over = True

    def _next_steps(self, standing: Standing) -> int:
        return self._left[0].next_steps(standing.step_s)

    def _proceed(self, num_steps: int) -> None:
        self._standing = None
        self._expect()
        self._socket.resume_ranks()
        self._socket.give_turn(num_steps)

    def _expect(self) -> None:
        """From here on the ranks are to make progress."""
        self._timeout = ProgressTimeout(self._launch.watch)
        self._next_look_s = time.monotonic() + POLL_INTERVAL_S

    def _is_timed_out(self) -> bool:
        if self._timeout is None or time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + POLL_INTERVAL_S
        return self._timeout.is_over()

    def _own_cpu_s(self, ranks: Sequence[int]) -> float:
        return own_cpu_seconds() + processes_cpu_seconds(ranks)

    def _record(self, line: TurnLine) -> None:
        path = self._launch.paths.turns
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise StorageError(f"Could not write {path}: {error.strerror}.") from error
