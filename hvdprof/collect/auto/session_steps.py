"""What is counted anew in each session of an elastic job.

Tested in ``tests/collect/auto/test_step_tracker.py``.
"""

from dataclasses import dataclass, field

LEARNING_STEPS = 4
"""First updates that show whether passes without training are a part of every step."""


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
