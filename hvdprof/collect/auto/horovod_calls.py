"""Horovod's calls that make a rank wait, and how a call is replaced.

Tested by tests/collect/test_real_calls.py.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

BLOCKING = (
    "allreduce",
    "allreduce_",
    "grouped_allreduce",
    "grouped_allreduce_",
    "allgather",
    "grouped_allgather",
    "broadcast",
    "broadcast_",
    "alltoall",
    "reducescatter",
    "grouped_reducescatter",
    "synchronize",
    "barrier",
    "join",
    "add_process_set",
    "remove_process_set",
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_object",
    "allgather_object",
)


def replace_call(
    hvd: ModuleType, name: str, replacement: Callable[[Callable[..., Any]], object]
) -> None:
    """Replace a function, also where it was defined.

    There pickle looks it up, a script may import it from, and Horovod's own backward passes too.
    """
    call = getattr(hvd, name)
    replaced = replacement(call)
    setattr(hvd, name, replaced)
    home = sys.modules.get(getattr(call, "__module__", None) or "")
    if home is not None and vars(home).get(name) is call:
        setattr(home, name, replaced)


def tensor_name_of(
    call: Callable[..., object],
) -> Callable[[Sequence[object], Mapping[str, object]], str]:
    """A function from the arguments of a call to the name of its tensor, empty without one."""
    try:
        parameters = list(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        parameters = []
    place = parameters.index("name") if "name" in parameters else sys.maxsize

    def tensor_name(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        name = args[place] if len(args) > place else kwargs.get("name")
        return name if isinstance(name, str) else ""

    return tensor_name
