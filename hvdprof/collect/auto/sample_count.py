"""How many samples each rank trains on, per step.

Tested in ``tests/collect/auto/test_step_tracker.py``.
"""


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
