"""Forward passes of the model that is trained, seen without knowing the model."""

import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

Begin = Callable[[Any], AbstractContextManager[None] | None]


class ForwardWatch:
    """Finds the outermost modules that hold trained parameters, and brackets their passes.

    While it looks for them every module is hooked; ``settle`` leaves hooks on those found alone,
    so that a model of a thousand modules does not pay for it.

    Args:
        torch: The module ``torch``.
        parameters: The trained parameters.
        begin: Called with the inputs of a pass for training; returns what to leave at its end.
        evaluates: Called at a pass of a trained module that is not for training.
    """

    def __init__(
        self, torch: Any, parameters: Iterable[Any], begin: Begin, evaluates: Callable[[], None]
    ) -> None:
        self._torch = torch
        self._trained = {id(parameter) for parameter in parameters}
        self._begin, self._evaluates = begin, evaluates
        self._depth = 0
        self._open: AbstractContextManager[None] | None = None
        self._owner = threading.get_ident()
        self._holds: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        modules = torch.nn.modules.module
        self._global_handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]
        self._handles: list[Any] = []

    def settle(self) -> None:
        """Keep to the modules found so far."""
        if not self._global_handles:
            return
        for handle in self._global_handles:
            handle.remove()
        self._global_handles = []
        for module in [module for module, holds in self._holds.items() if holds]:
            self._handles.append(module.register_forward_pre_hook(self._enter))
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))

    def remove(self) -> None:
        """Take every hook off."""
        for handle in (*self._global_handles, *self._handles):
            handle.remove()
        self._global_handles, self._handles = [], []

    def _enter(self, module: Any, inputs: Any) -> None:
        # Other threads serve metrics or data; the training runs in the one that made the optimizer.
        if threading.get_ident() != self._owner:
            return
        self._depth += 1
        if self._depth > 1 or not self._is_trained(module):
            return
        if module.training and self._torch.is_grad_enabled():
            self._open = self._begin(inputs)
            if self._open is not None:
                self._open.__enter__()
        else:
            self._evaluates()

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        if threading.get_ident() != self._owner or self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0 and self._open is not None:
            opened, self._open = self._open, None
            opened.__exit__(None, None, None)

    def _is_trained(self, module: Any) -> bool:
        holds = self._holds.get(module)
        if holds is None:
            holds = any(id(parameter) in self._trained for parameter in module.parameters())
            self._holds[module] = holds
        return holds


def first_length(value: Any) -> int:
    """The first dimension of the first tensor in a batch or in inputs; 0 where there is none."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return next((length for length in map(first_length, value) if length), 0)
    return 0
