"""Ranks that import torch's compiler only where something asks for it.

``torch.optim`` imports ``torch._dynamo`` with the first optimizer, only to exclude optimizers from
compilation: half of the processor time that a rank needs to start. The reference models compile
nothing. Any other use of the stand-in, such as that of DDP, imports the compiler after all.
"""

import importlib
import sys
import types
from collections.abc import Callable
from typing import TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., object])

NAME = "torch._dynamo"


class _StandIn(types.ModuleType):
    """Excludes nothing from compilation, as nothing is compiled."""

    def disable(self, function: Function, *_options: object, **_named: object) -> Function:
        """The function itself."""
        return function

    def graph_break(self, *_options: object, **_named: object) -> None:
        """Nothing."""

    def __getattr__(self, name: str) -> object:
        # Walks over all modules read such names; only an import reads the path.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        return getattr(_import_compiler(), name)


def defer_compiler() -> None:
    """Put the stand-in in the place of the compiler, where nothing has imported that yet."""
    if NAME in sys.modules:
        return
    stand_in = _StandIn(NAME)
    sys.modules[NAME] = stand_in
    torch.__dict__["_dynamo"] = stand_in


def _import_compiler() -> types.ModuleType:
    if isinstance(sys.modules.get(NAME), _StandIn):
        del sys.modules[NAME]
    compiler = importlib.import_module(NAME)
    torch.__dict__["_dynamo"] = compiler
    return compiler
