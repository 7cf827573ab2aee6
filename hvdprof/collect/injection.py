"""Faults injected on purpose into a rank: a session around the session that records it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from hvdprof.collect.engines.ddp_reduction import CommHook
from hvdprof.collect.engines.torch_types import Model, Optimizer, parameters_of
from hvdprof.collect.host_facts import Identity
from hvdprof.collect.session import GradientCalls, LineCalls, Piece, Session, StepCalls, WaitCalls
from hvdprof.collect.steps.step_marks import Number
from hvdprof.rundir.recording.fault_plan import Fault

NUM_CLEAN_STEPS = 5


class FaultClock:
    """Decides when faults come in the steps of a segment, and lets their time pass.

    Warm-up steps and at least the first ``NUM_CLEAN_STEPS`` of a segment stay clean; a share of
    the step is one of the median of the last ``NUM_CLEAN_STEPS`` of them.
    """

    def __init__(self, faults: Sequence[Fault], identity: Identity) -> None:
        self._faults = tuple(faults)
        self._identity = identity
        self._is_clean = True
        self.begin_segment()

    def begin_segment(self) -> None:
        """Count steps from 0."""
        self._step = self._num_clean = 0
        self._clean_ns: list[int] = []

    def begin_step(self, warmup: bool) -> None:
        """A step begins."""
        self._is_clean = warmup or self._num_clean < NUM_CLEAN_STEPS

    def end_step(self, length_ns: int) -> None:
        """The step ran to its end."""
        if self._is_clean:
            self._clean_ns = [*self._clean_ns, length_ns][-NUM_CLEAN_STEPS:]
            self._num_clean += 1
        else:
            self._step += 1

    def inject(self, phase: str) -> None:
        """Let the faults of a phase happen that are due in this step."""
        if self._is_clean:
            return
        rank, size = self._identity.rank, self._identity.size
        for fault in self._faults:
            if fault.phase == phase and fault.is_due(rank, size, self._step):
                _pass_time(fault.kind, fault.length_ns(_median(self._clean_ns)))


class InjectedGradients(GradientCalls):
    """Hooks that inject faults into backward and optimizer, before those of the recorder.

    A fault in backward comes in the middle of it, before the gradient that is half way is ready,
    so that only the times of the gradients show it; one in the optimizer comes after the update.
    """

    def __init__(self, inner: Callable[[], GradientCalls], faults: FaultClock) -> None:
        self._inner = inner
        self._faults = faults
        self._removers: list[Callable[[], None]] = []
        self._num_gradients = self._num_ready = 0
        self._was_updated = False

    def begin_step(self) -> None:
        """A step begins."""
        self._num_ready, self._was_updated = 0, False

    def watch(self, model: Model, optimizer: Optimizer) -> None:
        """Hooks of both; these come first, so that a fault delays what is recorded."""
        # The number of gradients of all optimizers shows which one is half way.
        parameters = [
            parameter for parameter in parameters_of(optimizer) if parameter.requires_grad
        ]
        self._num_gradients += len(parameters)
        for parameter in parameters:
            handle = parameter.register_post_accumulate_grad_hook(self._gradient_ready)
            self._removers.append(handle.remove)
        own = optimizer.param_groups[0]["params"]

        def updated(done: Optimizer, _args: object, _kwargs: object) -> None:
            # Horovod's Adasum steps once per parameter within backward, on a list of its own.
            if done.param_groups[0]["params"] is own and not self._was_updated:
                self._was_updated = True
                self._faults.inject("optimizer")

        self._removers.append(optimizer.register_step_post_hook(updated).remove)
        self._inner().watch(model, optimizer)

    def unwatch(self) -> None:
        """Remove all hooks."""
        self.remove()
        self._inner().unwatch()

    def bucket_hook(self, hook: CommHook) -> CommHook:
        """The hook of the inner session."""
        return self._inner().bucket_hook(hook)

    def remove(self) -> None:
        """Remove the hooks that inject."""
        while self._removers:
            self._removers.pop()()
        self._num_gradients = 0

    def _gradient_ready(self, _parameter: object) -> None:
        if self._num_ready == self._num_gradients // 2:
            self._faults.inject("backward")
        self._num_ready += 1


class InjectedSteps(StepCalls):
    """Steps with faults between them and at the begin of their phases."""

    def __init__(
        self, inner: Callable[[], StepCalls], faults: FaultClock, gradients: InjectedGradients
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._gradients = gradients

    @contextmanager
    def step(self, samples: int, warmup: bool) -> Iterator[None]:
        """The inner context, after a pause where one is due."""
        self._faults.begin_step(warmup)
        self._gradients.begin_step()
        self._faults.inject("")
        begin_ns = time.monotonic_ns()
        with self._inner().step(samples, warmup):
            yield
        self._faults.end_step(time.monotonic_ns() - begin_ns)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The inner context, with the fault at its begin; that of backward comes by a hook."""
        with self._inner().phase(name):
            if name in ("data", "forward"):
                self._faults.inject(name)
            yield

    def evaluation(self, *, after_training: bool) -> AbstractContextManager[None]:
        """The inner context."""
        return self._inner().evaluation(after_training=after_training)

    def end_evaluation(self) -> None:
        """To the inner session."""
        self._inner().end_evaluation()

    def samples(self, number: int) -> None:
        """To the inner session."""
        self._inner().samples(number)

    def loss(self, value: Number) -> None:
        """To the inner session."""
        self._inner().loss(value)

    def passed(self, pieces: Sequence[Piece]) -> None:
        """To the inner session."""
        self._inner().passed(pieces)

    def extend_forward(self) -> None:
        """To the inner session."""
        self._inner().extend_forward()


class InjectingSession(Session):
    """Injects faults into steps, and leaves every other call to the session inside."""

    waits: WaitCalls
    lines: LineCalls

    def __init__(self, inner: Session, faults: Sequence[Fault], identity: Identity) -> None:
        self._faults = FaultClock(faults, identity)
        self._gradients = InjectedGradients(lambda: self._inner.gradients, self._faults)
        self.gradients = self._gradients
        self.steps = InjectedSteps(lambda: self._inner.steps, self._faults, self._gradients)
        self.replace_inner(inner)

    def replace_inner(self, inner: Session) -> None:
        """The recording has ended, and a session succeeds it; hooks and counts stay."""
        self._inner = inner
        self.waits, self.lines = inner.waits, inner.lines

    @contextmanager
    def segment(self, segment_id: str) -> Iterator[None]:
        """The inner context; steps are counted from 0 in it."""
        self._faults.begin_segment()
        try:
            with self._inner.segment(segment_id):
                yield
        finally:
            self._gradients.remove()
            self._faults.begin_segment()

    def abandon(self) -> None:
        """Remove all hooks and leave the recording as it is."""
        self._gradients.remove()
        self._inner.abandon()

    def give_up(self, error: Exception) -> None:
        """To the inner session."""
        self._inner.give_up(error)

    def break_off(self) -> None:
        """Remove all hooks and end the recording of a rank whose peers are gone."""
        self._gradients.remove()
        self._inner.break_off()

    def stop(self) -> None:
        """Remove all hooks and end the recording."""
        self._gradients.remove()
        self._inner.stop()


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
