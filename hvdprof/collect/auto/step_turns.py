"""Turns of a script that `hvdprof run` measures beside other launches: it waits behind updates.

All ranks make the same updates, so that they stop at the same boundary. The first wait is after
warm-up; the launching side then gives steps, turn by turn (``collect.turn_gate``). Where the ranks
cannot reach it, as in a network namespace of their own, they train without turns.
"""

import itertools
import os
import statistics
import time
from collections import deque
from collections.abc import Mapping

from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT
from hvdprof.collect.session_factory import own_identity
from hvdprof.collect.turn_gate import SETTLING_STEPS, TURNS, TurnGate, turn_gate

MOST_TIMES = 64
"""Latest updates whose distance gives the length of a step."""


class StepTurns:
    """Counts updates against the turns of this rank; nothing where the launch takes none.

    ``is_active`` is false there, and once the launching side turns out to be out of reach.

    Args:
        num_warmup_steps: Updates before the first wait; at least one.
        environment: Names the launching side.
    """

    def __init__(self, num_warmup_steps: int, environment: Mapping[str, str] = os.environ) -> None:
        self.is_active = TURNS in environment
        self._environment = environment
        self._left = max(num_warmup_steps, 1)
        self._gate: TurnGate | None = None
        self._had_turn = False
        self._times: deque[float] = deque(maxlen=MOST_TIMES)

    def update_ended(self, num_recorded: int) -> bool:
        """Count an update, and wait where the turn is over; false where the training is to end.

        Args:
            num_recorded: Steps that the recording holds, the number of the next one.
        """
        if not self.is_active:
            return True
        self._times.append(time.perf_counter())
        self._left -= 1
        if self._left > 0:
            return True
        count = self._next_turn(num_recorded)
        self._times.clear()
        self._times.append(time.perf_counter())
        self._left = count + SETTLING_STEPS
        if not count and self._gate is not None:
            self._gate.close()
        return count > 0 or not self.is_active

    def _next_turn(self, num_recorded: int) -> int:
        try:
            if self._gate is None:
                self._gate = turn_gate(own_identity().rank, self._environment)
            assert self._gate is not None
        except OSError as error:
            print_problem(f"no turns: {error}")
            self.is_active = False
            return 0
        count = self._gate.next_turn(IMPLICIT_SEGMENT, num_recorded, self._step_s())
        # Not later: ranks that had turns lose the launching side only where it has died.
        self.is_active = self._had_turn or not self._gate.is_lost
        self._had_turn = True
        return count

    def _step_s(self) -> float:
        """The median step of the later half; NaN where only one update was seen."""
        times = list(self._times)
        steps = [after - before for before, after in itertools.pairwise(times)]
        later_half = steps[len(steps) // 2 :]
        return statistics.median(later_half) if later_half else float("nan")
