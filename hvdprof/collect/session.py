"""What the calls of a script do while nothing is recorded: nothing."""

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from hvdprof.collect.clock.clock_exchange import ClockTurns

_NOTHING: AbstractContextManager[None] = nullcontext()

Piece = tuple[str, int, int]
"""A phase that is over: its name, its begin and its end, ns."""


class Session:
    """The calls of a script while nothing is recorded; the recorder overrides each of them."""

    def watch(self, model: Any, optimizer: Any) -> None:
        """Nothing."""

    def unwatch(self) -> None:
        """Nothing."""

    def segment(self, segment_id: str) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def step(self, samples: int, warmup: bool) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def timeline(self, path: Path) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def mark(self, name: str) -> None:
        """Nothing."""

    def note(self, kind: str, **values: Any) -> None:
        """Nothing."""

    def loss(self, value: Any) -> None:
        """Nothing."""

    def samples(self, number: int) -> None:
        """Nothing."""

    def blocked(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def blocked_unseen(self) -> None:
        """Nothing."""

    def passed(self, pieces: Sequence[Piece]) -> None:
        """Nothing."""

    def waits(self, change: int) -> None:
        """Nothing."""

    def bucket_hook(self, hook: Any) -> Any:
        """The hook itself."""
        return hook

    def abandon(self) -> None:
        """Nothing."""

    def give_up(self, error: Exception) -> None:
        """Nothing."""

    def break_off(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class SilentSession(Session):
    """A rank that does not record, in a job whose other ranks do.

    They compare their clocks together with this one, so it still takes its turns.
    """

    def __init__(self, clocks: ClockTurns) -> None:
        self._clocks = clocks

    def stop(self) -> None:
        """Take part in the exchange at the end."""
        self.take_turn()

    def take_turn(self) -> None:
        """Take part in an exchange whose result nobody needs."""
        # Nothing is recorded here any more that a failure could end; the training goes on.
        with contextlib.suppress(Exception):
            self._clocks.take()
