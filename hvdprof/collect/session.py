"""What the calls of a script do while nothing is recorded: nothing.

A session consists of parts with one purpose each; ``recorder`` and ``faults.injection`` replace
them. Tested by tests/collect/test_public_calls.py and tests/collect/test_recorder.py.
"""

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from hvdprof.collect.clock.clock_exchange import ClockTurns
from hvdprof.collect.engines.ddp_reduction import CommHook
from hvdprof.collect.engines.torch_types import Model, Optimizer
from hvdprof.collect.steps.step_marks import UNKNOWN_COLLECTIVE, Collective, Number
from hvdprof.rundir.recording.recorder_format import USER, RecorderLine

_NOTHING: AbstractContextManager[None] = nullcontext()

Piece = tuple[str, int, int]
"""A phase that is over: its name, its begin and its end, ns."""


class StepCalls:
    """Steps, and what belongs to the open step."""

    def step(self, samples: int, warmup: bool) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def evaluation(self, *, after_training: bool) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def end_evaluation(self) -> None:
        """Nothing."""

    def samples(self, number: int) -> None:
        """Nothing."""

    def loss(self, value: Number) -> None:
        """Nothing."""

    def passed(self, pieces: Sequence[Piece]) -> None:
        """Nothing."""

    def extend_forward(self) -> None:
        """Nothing."""


class WaitCalls:
    """Waits of the rank for other ranks."""

    def blocked(
        self, collective: Collective = UNKNOWN_COLLECTIVE, kind: str = USER
    ) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

    def unseen(self) -> None:
        """Nothing."""

    def count(self, change: int) -> None:
        """Nothing."""


class GradientCalls:
    """Hooks on models and optimizers."""

    def watch(self, model: Model, optimizer: Optimizer) -> None:
        """Nothing."""

    def unwatch(self) -> None:
        """Nothing."""

    def bucket_hook(self, hook: CommHook) -> CommHook:
        """The hook itself."""
        return hook


class LineCalls:
    """Lines of their own, and Horovod's timeline."""

    def mark(self, name: str) -> None:
        """Nothing."""

    def note(self, line: RecorderLine) -> None:
        """Nothing."""

    def timeline(self, path: Path) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING


class Session:
    """The calls of a script while nothing is recorded."""

    def __init__(self) -> None:
        self.steps = StepCalls()
        self.waits = WaitCalls()
        self.gradients = GradientCalls()
        self.lines = LineCalls()

    def segment(self, segment_id: str) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return _NOTHING

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

    They compare their clocks together with this rank, so it still takes its turns.
    """

    def __init__(self, clocks: ClockTurns) -> None:
        super().__init__()
        self._clocks = clocks

    def stop(self) -> None:
        """Take part in the exchange at the end."""
        self.take_turn()

    def take_turn(self) -> None:
        """Take part in an exchange whose result is dropped."""
        # No recording is left that a failure could end; the training continues.
        with contextlib.suppress(Exception):
            self._clocks.take()
