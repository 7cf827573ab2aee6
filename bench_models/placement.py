"""What precedes the import of torch: cores of its own for every rank, and no compiler."""

import importlib
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

_SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"

Function = TypeVar("Function", bound=Callable[..., object])

NAME = "torch._dynamo"


def pin_to_own_cores(local_rank: int, num_threads: int) -> bool:
    """Bind this process to ``num_threads`` cores that no other rank of the host gets.

    Hardware threads of one physical core are assigned last, so that ranks share one only when
    there are more of them than physical cores.

    Returns:
        Whether it was bound; not where the process may use too few cores for its place.
    """
    allowed = os.sched_getaffinity(0)
    if len(allowed) == num_threads:
        # The launcher has given this rank its own already.
        return True
    ordered = physical_first({core: siblings_of(core) for core in sorted(allowed)})
    own = ordered[local_rank * num_threads : (local_rank + 1) * num_threads]
    if len(own) < num_threads:
        sys.stderr.write(
            f"local rank {local_rank} is not pinned: {len(allowed)} cores are too few to give "
            f"each rank {num_threads}\n"
        )
        return False
    os.sched_setaffinity(0, own)
    return True


def physical_first(siblings: dict[int, str]) -> list[int]:
    """Cores so that the first hardware thread of every physical core comes before any second one.

    Args:
        siblings: By core what names its physical core, equal for the threads of one.
    """
    seen: dict[str, int] = {}
    turns = []
    for core in sorted(siblings):
        turn = seen.get(siblings[core], 0)
        seen[siblings[core]] = turn + 1
        turns.append((turn, core))
    return [core for _, core in sorted(turns)]


def siblings_of(core: int) -> str:
    """The hardware threads of a core's physical core, as the kernel lists them; else the core."""
    try:
        return Path(_SIBLINGS.format(core=core)).read_text(encoding="ascii").strip()
    except OSError:
        return str(core)


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
