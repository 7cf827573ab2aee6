"""What the recorder touches of torch's objects, which it never imports.

Checked by mypy where bench_models gives it torch's own objects, and by tests/collect/engines.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol


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
