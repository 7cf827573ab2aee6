"""How many steps the next turn of a segment has, and when it has been measured long enough."""

import math
from dataclasses import dataclass

from hvdprof.collect.turn_gate import SETTLING_STEPS
from hvdprof.rundir.plan import Segment

MIN_STEPS_PER_TURN = 3
"""Fewer would leave most of a turn to the steps at its begin that no result uses."""

TURNS_OF_A_SEGMENT = 4
"""A number of steps is divided into as many turns, where these are not too long: A B B A."""

WITHOUT_END = 10**9
"""Steps that no training makes."""

MIN_TURNS = 2
MIN_STEPS = 10


@dataclass(slots=True)
class SegmentTurns:
    """The turns that a segment of a launch has had.

    ``turn_s`` is the length that a turn aims at.
    """

    segment: Segment
    turn_s: float
    num_turns: int = 0
    num_steps: int = 0
    measured_s: float = 0.0
    _latest_s: float = 0.0

    def next_steps(self, step_s: float) -> int:
        """The measured steps of the next turn; 0 where the segment needs no further turn.

        Args:
            step_s: The length of its latest steps, NaN where unknown.
        """
        if self._is_enough():
            return 0
        wanted = round(self.turn_s / step_s) if step_s > 0 else MIN_STEPS_PER_TURN
        wanted = max(wanted, MIN_STEPS_PER_TURN)
        limit = self.segment.num_steps
        if limit is None:
            return wanted
        several = max(math.ceil(limit / TURNS_OF_A_SEGMENT), MIN_STEPS_PER_TURN)
        return min(wanted, several, limit - self.num_steps)

    @property
    def is_unbounded(self) -> bool:
        """Whether only the training itself ends the segment."""
        return self.segment.num_steps is None and self.segment.max_seconds is None

    def steps_to_end(self) -> int:
        """The steps that are left where no further turns are to come."""
        limit = self.segment.num_steps
        if limit is None:
            return WITHOUT_END
        return max(limit - self.num_steps - SETTLING_STEPS, 1)

    def add(self, num_steps: int, seconds: float) -> None:
        """A turn is over."""
        self.num_turns += 1
        self.num_steps += num_steps
        self.measured_s += seconds
        self._latest_s = seconds

    def _is_enough(self) -> bool:
        limit, seconds = self.segment.num_steps, self.segment.max_seconds
        if limit is not None and self.num_steps >= limit:
            return True
        if seconds is None or self.num_turns < MIN_TURNS or self.num_steps < MIN_STEPS:
            return False
        # Half a turn too long is as near as half a turn too short.
        return self.measured_s + self._latest_s / 2 >= seconds
