"""Waits for a script to import `horovod.torch` or `horovod.tensorflow`, and for nothing else."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Calls a function with a module once, after the module has been executed.

    Args:
        name: The full name of the module.
        act: Called with it; its exceptions are the script's to see, so it must not raise.
    """

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act
        self._is_looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders say, with the function behind the execution of the module."""
        if fullname != self._name or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            self._act_after(spec)
        return spec

    def _act_after(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        assert loader is not None
        execute = loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._act(module)

        # On this loader alone: other modules are loaded as ever.
        loader.exec_module = execute_and_act  # type: ignore[method-assign]


def install() -> None:
    """Record the training of this process as soon as it imports a Horovod, or has."""
    is_waiting = any(isinstance(finder, AfterImport) for finder in sys.meta_path)
    for name, record in (
        ("horovod.torch", _record_torch),
        ("horovod.tensorflow", _record_tensorflow),
    ):
        if name in sys.modules:
            record(sys.modules[name])
        elif not is_waiting:
            sys.meta_path.insert(0, AfterImport(name, record))


def _record_torch(module: ModuleType) -> None:
    from hvdprof.collect.autorecord import record_training

    record_training(module)


def _record_tensorflow(module: ModuleType) -> None:
    from hvdprof.collect.tensorflow_watch import record_training

    record_training(module)
