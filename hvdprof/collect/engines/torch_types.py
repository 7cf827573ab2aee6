"""What the recorder touches of torch's objects, which it never imports, and what reduces gradients.

Checked by mypy where bench_models gives it torch's own objects, and by tests/collect/engines.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol

from hvdprof.collect.steps.step_marks import StepMarks


class HookHandle(Protocol):
    """What torch returns for a registered hook."""

    def remove(self) -> None:
        """Remove the hook."""


class SizedTensor(Protocol):
    """A tensor of which the size is asked for."""

    def numel(self) -> int:
        """Number of elements."""

    def element_size(self) -> int:
        """Bytes per element."""


class DetachedTensor(Protocol):
    """A tensor outside of autograd."""

    def new_empty(self, size: int, /) -> SizedTensor:
        """A tensor like it with that many elements."""


class Parameter(Hashable, SizedTensor, Protocol):
    """A parameter of a model, as torch 2.1 or newer has it."""

    requires_grad: bool

    @property
    def device(self) -> object:
        """Where it is; its text is such as ``cpu`` or ``cuda:0``."""

    def detach(self) -> DetachedTensor:
        """The parameter outside of autograd."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None], /) -> HookHandle:
        """Call the hook with the parameter once its gradient is complete."""


class Model(Protocol):
    """A model that knows the names of its parameters."""

    def named_parameters(self) -> Iterable[tuple[str, Parameter]]:
        """Names and parameters."""


class Optimizer(Protocol):
    """A torch optimizer, plain or made by ``hvd.DistributedOptimizer``."""

    param_groups: list[dict[str, Any]]

    def register_step_pre_hook(self, hook: Callable[..., None], /) -> HookHandle:
        """Call the hook with optimizer, arguments and keyword arguments before each step."""

    def register_step_post_hook(self, hook: Callable[..., None], /) -> HookHandle:
        """Call the hook likewise after each step."""


def parameters_of(optimizer: Optimizer) -> list[Parameter]:
    """The parameters of all groups, in their order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class Reduction:
    """What exchanges the gradients of one model and one optimizer; in plain torch nothing does.

    ``blocks_in_step`` says that the whole of ``optimizer.step()`` is a wait for other ranks.
    """

    blocks_in_step = False

    def __init__(self, model: Model) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def name(self, parameter: Parameter) -> str | None:
        """The name of a parameter's gradient as the engine knows it; None where it has none."""
        return self._names.get(id(parameter))

    def sent_bytes(self, parameter: Parameter) -> int:
        """Bytes that a rank submits of this gradient per step, after compression."""
        return 0

    def seen_bytes(self) -> Mapping[int, int]:
        """Bytes seen when they were submitted, by id of the parameter; replaces ``sent_bytes``."""
        return {}

    def begin_step(self) -> None:
        """Forget what remains of an unfinished step."""

    def attach(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Mark from here on when the rank waits; the calls that end that."""
        return []

    def on_ready(self, marks: StepMarks) -> Callable[[], None] | None:
        """What to call within backward when a gradient is ready; None for nothing.

        It is called until it has set ``marks.is_wait_expected``.
        """
        return None
