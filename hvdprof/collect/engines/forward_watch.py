"""Forward passes of the model that is trained, seen without knowing the model."""

import functools
import gc
import operator
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

from hvdprof.collect.engines.ddp_reduction import is_ddp
from hvdprof.collect.engines.torch_types import Parameter
from hvdprof.collect.guarded_context import opened

Begin = Callable[[object], AbstractContextManager[None] | None]


class Module(Protocol):
    """A ``torch.nn.Module``."""

    training: bool

    def parameters(self) -> Iterable[Parameter]:
        """Its parameters."""

    def children(self) -> "Iterable[Module]":
        """Its parts."""


class ForwardWatch:
    """Finds the outermost modules that hold trained parameters, and watches their passes.

    The calls of their classes are replaced, never the modules themselves: a hook on a module would
    travel into its copies and its saved files, and into what ``torch.compile`` makes of it. Inside
    compiled code the replaced calls do nothing; the call of the compiled module is seen.

    Until ``settle`` all classes whose modules hold trained parameters are watched, afterwards only
    those that were outermost, so that a model of a thousand modules does not pay for it. Some stay
    watched for evaluation alone: the class of a model inside DDP, since a rank that evaluates while
    the others wait calls the model inside, and those of the largest parts of a model, such as a
    backbone, which scripts call by themselves to compute features.

    Args:
        torch: The module ``torch``.
        parameters: The trained parameters.
        begin: Called with the inputs of a pass for training; returns what to leave at its end.
        evaluates: Called at a pass of a trained module that is not for training; returns what to
            leave at its end, or None.
        fails: Called with an exception of this watch, which never reaches the script.
    """

    def __init__(
        self,
        torch: ModuleType,
        parameters: Iterable[Parameter],
        begin: Begin,
        evaluates: Callable[[], AbstractContextManager[None] | None],
        fails: Callable[[Exception], None],
    ) -> None:
        self._torch = torch
        self._trained = {id(parameter) for parameter in parameters}
        self._begin, self._evaluates, self._fails = begin, evaluates, fails
        self._depth = 0
        self._owner = threading.get_ident()
        self._holds: weakref.WeakKeyDictionary[Module, bool] = weakref.WeakKeyDictionary()
        self._restore: dict[type, Callable[[], None]] = {}
        self._outermost: set[type] = set()
        self._for_evaluation: set[type] = set()
        self._is_compiled = self._is_settled = False
        self.look_for_modules()

    @property
    def is_inside(self) -> bool:
        """Whether a watched module computes now."""
        return self._depth > 0

    def add(self, parameters: Iterable[Parameter]) -> None:
        """Watch the modules of further parameters, too."""
        self._trained.update(id(parameter) for parameter in parameters)
        self._holds.clear()
        self.look_for_modules()

    def look_for_modules(self) -> None:
        """Watch the classes of all modules that hold trained parameters now."""
        self._is_settled = False
        base = self._torch.nn.Module
        for instance in gc.get_objects():
            kind = type(instance)
            if not issubclass(kind, base) or kind is base or kind in self._restore:
                continue
            # A module whose constructor is still running has no parameters to ask for.
            if "_parameters" in getattr(instance, "__dict__", ()) and self._is_trained(instance):
                self._watch(kind)

    def move_here(self) -> None:
        """Watch the passes in this thread, instead of in the one that made the watch."""
        self._owner = threading.get_ident()

    def settle(self) -> None:
        """Watch only the classes that were outermost so far, and those for evaluation."""
        # Compiled code that saw the replaced calls would be compiled once more without them.
        if self._is_compiled or not self._outermost:
            return
        self._is_settled = True
        for kind in self._restore.keys() - self._outermost - self._for_evaluation:
            self._restore.pop(kind)()

    def remove(self) -> None:
        """Restore every call."""
        while self._restore:
            self._restore.popitem()[1]()

    def _watch(self, kind: Any) -> None:
        is_compiling = getattr(self._torch.compiler, "is_compiling", bool)
        own, call = vars(kind).get("__call__"), _call_of(kind)

        # Annotations are pickled with a class of the script (`__reduce__`): none of this package.
        def watched(module: Any, *args: object, **kwargs: object) -> object:
            if is_compiling() or not self.is_watched(kind):
                return call(module, *args, **kwargs)
            context = self._opened(module, args or tuple(kwargs.values()))
            self._depth += 1
            try:
                with context:
                    return call(module, *args, **kwargs)
            finally:
                self._depth -= 1

        def restore() -> None:
            # A function that was put there meanwhile stays.
            if vars(kind).get("__call__") is not watched:
                return
            if own is not None:
                kind.__call__ = own
            else:
                del kind.__call__

        # A function, into which the compiler of torch looks.
        kind.__call__ = functools.wraps(kind.__call__)(watched)
        self._restore[kind] = restore

    def __reduce__(self) -> tuple[type, tuple[()], Mapping[str, object]]:
        """An object that watches nothing.

        A class of the script itself is pickled as a whole, with its replaced call, where it goes
        to other ranks or workers or into a file; the recorder neither can nor should go with it.
        """
        return types.SimpleNamespace, (), {"is_watched": operator.not_}

    def is_watched(self, kind: type) -> bool:
        """Whether calls of a class are watched in this thread: those outside all other modules."""
        # Other threads serve metrics or data.
        return not self._depth and kind in self._restore and threading.get_ident() == self._owner

    def _opened(self, module: Module, inputs: object) -> AbstractContextManager[None]:
        # Not in the call itself, which is pickled without this package.
        return opened(self._fails, self._enter, module, inputs)

    def _enter(self, module: Module, inputs: object) -> AbstractContextManager[None] | None:
        if not self._is_trained(module):
            return None
        kind, trains = type(module), _is_in_training(module) and self._torch.is_grad_enabled()
        if self._is_settled:
            # Backward computes checkpointed modules once more, which is no pass of its own.
            if trains and kind not in self._outermost:
                return None
        else:
            self._outermost.add(kind)
            whole: Any = module
            if is_ddp(module):
                whole = module.module
                self._for_evaluation.add(type(whole))
            self._for_evaluation.update(type(part) for part in self._parts(whole))
            self._is_compiled |= _is_compiled(module)
        return self._begin(inputs) if trains else self._evaluates()

    def _parts(self, module: Module) -> Iterable[Module]:
        """The parts of a model that have parts of their own; others are too many to watch."""
        return [
            child
            for child in module.children()
            if any(child.children()) and self._is_trained(child)
        ]

    def _is_trained(self, module: Module) -> bool:
        holds = self._holds.get(module)
        if holds is None:
            holds = any(id(parameter) in self._trained for parameter in module.parameters())
            self._holds[module] = holds
        return holds


def _is_in_training(module: Module) -> bool:
    # Lightning switches the model alone between training and evaluation, never DDP around it.
    return module.module.training if is_ddp(module) else module.training


def _call_of(kind: type) -> Callable[..., object]:
    own = vars(kind).get("__call__")

    # Annotations are pickled with a class of the script: none of this package.
    def call(module: Any, *args: object, **kwargs: object) -> object:
        if own is not None:
            return own(module, *args, **kwargs)
        # Looked up at each call: tracers of torch replace the call of the base class for a while.
        above: Any = super(kind, module)
        return above.__call__(*args, **kwargs)

    return call


def _is_compiled(module: Module) -> bool:
    # By torch.compile(module), or in place by module.compile().
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def first_length(value: object) -> int:
    """The first dimension of the first tensor in a batch or in inputs; 0 where there is none."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[0]) if shape else 0
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return next((length for length in map(first_length, value) if length), 0)
    return 0
