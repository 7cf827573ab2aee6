"""How many steps the next turn of a segment has, and when it has been measured long enough."""

from dataclasses import dataclass

from hvdprof.rundir.plan import Segment

MIN_STEPS_PER_TURN = 3
"""Fewer would leave most of a turn to the steps at its begin that no result uses."""

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
        return wanted if limit is None else min(wanted, limit - self.num_steps)

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
