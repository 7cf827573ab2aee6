"""The reduction backend: what a rank submits its gradients to, and when the rank waits for it.

Tested by tests/collect/engines/test_gradient_watch.py.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from hvdprof.collect.engines.torch_types import Model, Parameter
from hvdprof.collect.steps.step_marks import StepMarks


class ReductionBackend(Protocol):
    """The engine that exchanges the gradients of one model and one optimizer.

    ``blocks_in_step`` says that the whole of ``optimizer.step()`` is a wait for other ranks.
    """

    blocks_in_step: bool

    def name(self, parameter: Parameter) -> str | None:
        """The name of a parameter's gradient as the engine knows it; None where it has none."""

    def sent_bytes(self, parameter: Parameter) -> int:
        """Bytes that a rank submits of this gradient per step, after compression."""

    def seen_bytes(self) -> Mapping[int, int]:
        """Bytes seen when they were submitted, by id of the parameter; replaces ``sent_bytes``."""

    def begin_step(self) -> None:
        """Forget what remains of an unfinished step."""

    def attach(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Mark from here on when the rank waits; the calls that end that."""

    def on_ready(self, marks: StepMarks) -> Callable[[], None] | None:
        """What to call within backward when a gradient is ready; None for nothing.

        It is called until it has set ``marks.is_wait_expected``.
        """


class NoReduction:
    """Plain torch: every rank keeps its gradients.

    Args:
        model: Gives the names of parameters.
    """

    blocks_in_step = False

    def __init__(self, model: Model) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def name(self, parameter: Parameter) -> str | None:
        """Its name in the model."""
        return self._names.get(id(parameter))

    def sent_bytes(self, parameter: Parameter) -> int:
        """0: a rank submits no gradient."""
        return 0

    def seen_bytes(self) -> Mapping[int, int]:
        """Nothing."""
        return {}

    def begin_step(self) -> None:
        """Nothing."""

    def attach(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Nothing: the rank never waits."""
        return []

    def on_ready(self, marks: StepMarks) -> None:
        """Nothing."""
