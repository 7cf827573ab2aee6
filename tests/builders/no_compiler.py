"""Ranks that never import torch's compiler, which takes half the processor time of a short rank.

``torch.optim`` imports ``torch._dynamo`` with the first optimizer, only to exclude optimizers from
compilation, and DDP asks it how. A script that compiles nothing does the same without it.
"""

import sys
import types
from collections.abc import Callable
from typing import TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., object])


def leave_out_compiler() -> None:
    """Put a module in place of ``torch._dynamo`` that excludes nothing, as nothing is compiled."""
    stand_in = types.ModuleType("torch._dynamo")
    stand_in.__dict__.update(
        disable=_unchanged,
        graph_break=_nothing,
        trace_rules=types.SimpleNamespace(clear_lru_cache=_nothing),
        utils=types.SimpleNamespace(get_optimize_ddp_mode=_nothing),
    )
    sys.modules[stand_in.__name__] = stand_in
    torch.__dict__["_dynamo"] = stand_in


def _unchanged(function: Function, *_options: object, **_named: object) -> Function:
    return function


def _nothing() -> None:
    pass
