"""How a script's calls reach the recorder, and never with an exception of its own."""

import contextlib
import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from hvdprof.collect.steps.step_marks import StepMarks

P = ParamSpec("P")
R = TypeVar("R")

_EMPTY = nullcontext()


class GuardedContext:
    """A context that makes one call on entry and one on exit; exceptions pass through.

    The argument of the call on exit says whether the block ran to its end.
    """

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[bool], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._leave(kind is None)


class Guarded:
    """A part of the recorder, after whose failure the recording ends and the training continues."""

    def __init__(self, give_up: Callable[[Exception], None]) -> None:
        self._give_up = give_up


G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], None]) -> Callable[Concatenate[G, P], None]:
    """The method, after whose failure the recording ends and the training continues."""

    @functools.wraps(method)
    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self._give_up(error)

    return call


def opened(
    fails: Callable[[Exception], None],
    make: Callable[P, AbstractContextManager[None] | None],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> AbstractContextManager[None]:
    """The context of a part of the recorder; an empty one where it has none, or fails to make it.

    Args:
        fails: Called with the exception of ``make``; ends the recording.
        make: Makes the context.
        *args: For ``make``.
        **kwargs: For ``make``.
    """
    try:
        return make(*args, **kwargs) or _EMPTY
    except Exception as error:
        fails(error)
        return _EMPTY


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


def print_problem(message: str) -> None:
    """One line on stderr; dropped where stderr is closed or full."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"hvdprof recorder: {message}\n")


def harmless(marks: "StepMarks", hook: Callable[P, R]) -> Callable[P, R | None]:
    """A hook whose exception does not reach the training: it is stored as ``marks.failure``.

    The hook returns None then and does nothing else: torch is iterating over its hooks, and none
    may be removed meanwhile.
    """

    def called(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return hook(*args, **kwargs)
        except Exception as error:
            marks.failure = error
            return None

    return called
