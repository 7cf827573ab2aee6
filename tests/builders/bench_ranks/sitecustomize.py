"""Run by Python in the ranks that tests start: those of ``bench`` leave torch's compiler out.

``torch.optim`` imports ``torch._dynamo``, a second of processor time, only to exclude optimizers
from compilation. The reference models compile nothing. DDP needs the real one.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_TRAIN = "hvdprof.bench_models.train"
_COMPILER = "torch._dynamo"


class _StandIn(Loader):
    """Loads a compiler that excludes nothing, as nothing is compiled."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(disable=_unchanged, graph_break=_nothing)


class _Finder(MetaPathFinder):
    """Finds the stand-in where the compiler is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, _StandIn()) if fullname == _COMPILER else None


def _unchanged(
    function: Callable[..., object], *_options: object, **_named: object
) -> Callable[..., object]:
    return function


def _nothing() -> None:
    pass


def _compiles_nothing(arguments: Sequence[str]) -> bool:
    """Whether this is a rank of ``bench`` without DDP."""
    if _TRAIN not in arguments or "--plan" not in arguments:
        return False
    plan = Path(arguments[arguments.index("--plan") + 1])
    return plan.is_file() and '"ddp"' not in plan.read_text(encoding="utf-8")


if _compiles_nothing(sys.orig_argv):
    sys.meta_path.insert(0, _Finder())
