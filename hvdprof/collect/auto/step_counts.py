"""What follows each step of a script: counts of samples and steps, and waits for its turn.

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
from dataclasses import dataclass, field

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT
from hvdprof.collect.session_factory import own_identity
from hvdprof.collect.turn_gate import SETTLING_STEPS, TURNS, TurnGate, turn_gate

LEARNING_STEPS = 4
"""First updates that show whether passes without training are a part of every step."""

MOST_TIMES = 64
"""Latest updates whose distance gives the length of a step."""


class SampleCount:
    """Samples of the open step: of its batches, else of the inputs of its forward passes.

    The next batch may be fetched before the update, and a script without a data loader may
    accumulate several batches per update: so batches and inputs are counted apart, and inputs once
    per backward pass, since two models may see one batch.
    """

    def __init__(self) -> None:
        self._of_batches = self._of_inputs = 0
        self._is_counted = False

    def clear(self) -> None:
        """Count from 0: a step begins, or what was fetched is not trained on."""
        self._of_batches = self._of_inputs = 0
        self._is_counted = False

    def fetched(self, number: int) -> None:
        """A batch of so many samples has come."""
        self._of_batches += number

    def seen(self, number: int) -> None:
        """A forward pass for training sees so many samples."""
        if not self._is_counted:
            self._of_inputs += number
            self._is_counted = number > 0

    def backward(self) -> None:
        """A backward pass begins: the next forward pass sees another batch."""
        self._is_counted = False

    @property
    def total(self) -> int:
        """The samples, 0 if unknown."""
        return self._of_batches or self._of_inputs


@dataclass(slots=True)
class SessionSteps:
    """The counts of one session.

    ``num_before`` are updates of earlier sessions, ``num_ended`` those of this one, and
    ``num_with_evaluation`` those of its steps that contain one. ``passes`` are the
    forward passes without training between each of the first updates, ``num_passes`` those since
    the last update, ``num_usual`` as many as a step of this script contains. ``timeline`` is the
    file of Horovod's timeline, empty for none.
    """

    num_before: int
    timeline: str
    num_ended: int = 0
    num_with_evaluation: int = 0
    num_passes: int = 0
    num_usual: int = 0
    passes: list[int] = field(default_factory=list)
    has_begun: bool = False
    had_timeline: bool = False
    has_evaluation: bool = False

    def step_ended(self) -> None:
        """A recorded step is over; its evaluation counts, and so do its passes without training."""
        self.num_with_evaluation += self.has_evaluation
        self.has_evaluation = False
        if len(self.passes) < LEARNING_STEPS:
            self.passes.append(self.num_passes)
            if len(self.passes) == LEARNING_STEPS and min(self.passes):
                self.num_usual = max(self.passes)


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
