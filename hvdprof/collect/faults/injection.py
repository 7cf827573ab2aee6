"""A session that lets faults happen in a rank, around the session that records it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hvdprof.collect.faults.fault_plan import Fault
from hvdprof.collect.identity import Identity
from hvdprof.collect.session import Piece, Session

NUM_CLEAN_STEPS = 5


class InjectingSession(Session):
    """Passes every call on and lets faults happen within the phase that they belong to.

    Warm-up steps and at least the first ``NUM_CLEAN_STEPS`` of a segment stay clean; a share of
    the step is one of the median of the last ``NUM_CLEAN_STEPS`` of them. A fault in backward
    comes in the middle of it, before the gradient that is half way is ready, so that nothing but
    the times of the gradients tells it; one in the optimizer comes after the update.

    Args:
        inner: The session that records, or one that does nothing.
        faults: What is to happen.
        identity: Which rank this is.
    """

    def __init__(self, inner: Session, faults: Sequence[Fault], identity: Identity) -> None:
        self.inner = inner
        self._faults = tuple(faults)
        self._identity = identity
        self._removers: list[Callable[[], None]] = []
        self._num_gradients = self._num_ready = 0
        self._step = self._num_clean = 0
        self._clean_ns: list[int] = []
        self._is_clean = True
        self._was_updated = False

    def watch(self, model: Any, optimizer: Any) -> None:
        """Hooks of both; these come first, so that a fault delays what is recorded."""
        # The hooks of one optimizer: how many gradients there are tells which is half way.
        parameters = [
            one for group in optimizer.param_groups for one in group["params"] if one.requires_grad
        ]
        self._num_gradients += len(parameters)
        for parameter in parameters:
            handle = parameter.register_post_accumulate_grad_hook(self._gradient)
            self._removers.append(handle.remove)
        own = optimizer.param_groups[0]["params"]

        def updated(done: Any, _args: Any, _kwargs: Any) -> None:
            # Horovod's Adasum steps once a parameter within backward, on a list of its own.
            if done.param_groups[0]["params"] is own and not self._was_updated:
                self._was_updated = True
                self._happen("optimizer")

        self._removers.append(optimizer.register_step_post_hook(updated).remove)
        self.inner.watch(model, optimizer)

    def unwatch(self) -> None:
        """Take all hooks off."""
        self._remove_hooks()
        self.inner.unwatch()

    @contextmanager
    def segment(self, segment_id: str) -> Iterator[None]:
        """The inner context; steps are counted anew in it."""
        self._begin_segment()
        try:
            with self.inner.segment(segment_id):
                yield
        finally:
            self._remove_hooks()
            self._begin_segment()

    @contextmanager
    def step(self, samples: int, warmup: bool) -> Iterator[None]:
        """The inner context, after a pause where one is due."""
        self._is_clean = warmup or self._num_clean < NUM_CLEAN_STEPS
        self._num_ready, self._was_updated = 0, False
        self._happen("")
        begin_ns = time.monotonic_ns()
        with self.inner.step(samples, warmup):
            yield
        if self._is_clean:
            self._clean_ns = [*self._clean_ns, time.monotonic_ns() - begin_ns][-NUM_CLEAN_STEPS:]
            self._num_clean += 1
        else:
            self._step += 1

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The inner context, with the fault at its begin; that of backward comes by a hook."""
        with self.inner.phase(name):
            if name in ("data", "forward"):
                self._happen(name)
            yield

    def timeline(self, path: Path) -> AbstractContextManager[None]:
        """The inner context."""
        return self.inner.timeline(path)

    def mark(self, name: str) -> None:
        """Passed on."""
        self.inner.mark(name)

    def note(self, kind: str, **values: Any) -> None:
        """Passed on."""
        self.inner.note(kind, **values)

    def loss(self, value: Any) -> None:
        """Passed on."""
        self.inner.loss(value)

    def samples(self, number: int) -> None:
        """Passed on."""
        self.inner.samples(number)

    def blocked(self) -> AbstractContextManager[None]:
        """The inner context."""
        return self.inner.blocked()

    def blocked_unseen(self) -> None:
        """Passed on."""
        self.inner.blocked_unseen()

    def passed(self, pieces: Sequence[Piece]) -> None:
        """Passed on."""
        self.inner.passed(pieces)

    def waits(self, change: int) -> None:
        """Passed on."""
        self.inner.waits(change)

    def bucket_hook(self, hook: Any) -> Any:
        """Passed on."""
        return self.inner.bucket_hook(hook)

    def abandon(self) -> None:
        """Take all hooks off and leave the recording as it is."""
        self._remove_hooks()
        self.inner.abandon()

    def give_up(self, error: Exception) -> None:
        """Passed on."""
        self.inner.give_up(error)

    def break_off(self) -> None:
        """Take all hooks off and end the recording of a rank whose peers are gone."""
        self._remove_hooks()
        self.inner.break_off()

    def stop(self) -> None:
        """Take all hooks off and end the recording."""
        self._remove_hooks()
        self.inner.stop()

    def _begin_segment(self) -> None:
        self._step = self._num_clean = 0
        self._clean_ns = []

    def _gradient(self, _parameter: Any) -> None:
        if self._num_ready == self._num_gradients // 2:
            self._happen("backward")
        self._num_ready += 1

    def _happen(self, phase: str) -> None:
        if self._is_clean:
            return
        rank, size = self._identity.rank, self._identity.size
        for fault in self._faults:
            if fault.phase == phase and fault.is_due(rank, size, self._step):
                _pass_time(fault.kind, fault.length_ns(_median(self._clean_ns)))

    def _remove_hooks(self) -> None:
        while self._removers:
            self._removers.pop()()
        self._num_gradients = 0


def _median(lengths_ns: Sequence[int]) -> int:
    # Not from `statistics`, which would hide a file of that name beside the user's script.
    return sorted(lengths_ns)[len(lengths_ns) // 2]


def _pass_time(kind: str, length_ns: float) -> None:
    end_ns = time.monotonic_ns() + length_ns
    if kind == "cpu":
        while time.monotonic_ns() < end_ns:
            pass
        return
    time.sleep(length_ns / 1e9)
