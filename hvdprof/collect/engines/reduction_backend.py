"""What the gradients of a rank are handed to, and how it is seen that the rank waits for them."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hvdprof.collect.steps.step_marks import StepMarks


class Handover(Protocol):
    """The engine that exchanges the gradients of one model and one optimizer.

    ``blocks_in_step`` says that the rank waits for the others in the whole of ``optimizer.step()``.
    """

    blocks_in_step: bool

    def name(self, parameter: Any) -> str | None:
        """The name of a parameter's gradient as the engine knows it; None where it has none."""

    def sent_bytes(self, parameter: Any) -> int:
        """What a rank hands over of this gradient in a step, after compression."""

    def seen_bytes(self) -> Mapping[int, int]:
        """What a rank was seen to hand over, by id of the parameter; holds against the above."""

    def begin_step(self) -> None:
        """Forget what an unfinished step left behind."""

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Mark from here on when the rank waits; what has to be called to end that."""


class NoHandover:
    """Plain torch: every rank keeps its gradients.

    Args:
        model: Gives the names of parameters.
    """

    blocks_in_step = False

    def __init__(self, model: Any) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def name(self, parameter: Any) -> str | None:
        """Its name in the model."""
        return self._names.get(id(parameter))

    def sent_bytes(self, parameter: Any) -> int:
        """0: nothing is handed over."""
        return 0

    def seen_bytes(self) -> Mapping[int, int]:
        """Nothing."""
        return {}

    def begin_step(self) -> None:
        """Nothing."""

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Nothing: the rank never waits."""
        return []
