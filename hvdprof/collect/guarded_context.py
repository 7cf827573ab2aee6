"""How a script's calls reach the recorder: as contexts, and never with an exception of its own."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

P = ParamSpec("P")


class Bracket:
    """A context that makes one call on entry and one on exit; exceptions pass through.

    The call on exit is told whether the block ran to its end.
    """

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[bool], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._leave(kind is None)


def guarded(method: Callable[P, None]) -> Callable[P, None]:
    """The method of a recorder, after whose failure the recording ends and the training goes on."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            recorder: Any = args[0]
            recorder.give_up(error)

    return call
