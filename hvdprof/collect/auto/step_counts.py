"""What is counted with the steps of a script: samples of each, and steps of each session.

Tested in ``tests/collect/auto/test_step_tracker.py``.
"""

from dataclasses import dataclass, field

LEARNING_STEPS = 4
"""First updates that show whether passes without training are a part of every step."""


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
