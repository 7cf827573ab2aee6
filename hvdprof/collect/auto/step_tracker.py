"""Steps of a script that does not mark them: from one `optimizer.step()` to the next."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect.auto.discovery import surround_step
from hvdprof.collect.auto.step_counts import SampleCount, SessionSteps, StepTurns
from hvdprof.collect.guarded_context import print_problem
from hvdprof.rundir.launch_format import AutoSettings

Context = contextlib.AbstractContextManager[None]


class StepAbandonedError(Exception):
    """Leaves a step that is not to be recorded."""


class StepTracker:
    """Opens a step at the first sign of training and closes it after ``optimizer.step()``.

    The next step begins where the one before ended, so that data loading, logging and saving count.
    A forward pass for evaluation marks the open step: whether all ranks evaluate, or the others
    wait, is known when all recordings are read. Before the first update it drops the step instead.
    Where each of the first steps has such passes, as with a teacher or a generator, they are a part
    of the training.
    """

    def __init__(self, settings: AutoSettings) -> None:
        self._settings = settings
        self._session = SessionSteps(0, settings.timeline)
        self._step: Context | None = None
        self._timeline: Context | None = None
        self._samples = SampleCount()
        self._trains = self._has_gradients = False
        self._is_marked = False
        self._turns = StepTurns(settings.num_warmup_steps)
        self._num_recorded = 0

    @property
    def has_begun(self) -> bool:
        """Whether a step of this session has begun."""
        return self._session.has_begun

    @property
    def num_ended(self) -> int:
        """Updates of this session."""
        return self._session.num_ended

    @property
    def num_total(self) -> int:
        """Updates of the job, earlier sessions included."""
        return self._session.num_before + self._session.num_ended

    def begin_session(self, num_before: int, timeline: str) -> None:
        """A session of an elastic job begins: steps, warm-up and timeline count anew in it.

        ``num_before`` is the same on every rank; ``timeline`` is a file, empty for none.
        """
        # Steps that a script trained before the session are not recorded.
        self._drop()
        self._session = SessionSteps(num_before, timeline)

    def break_off(self) -> None:
        """The peers are gone; the open step is dropped, and Horovod has closed its timeline."""
        self._drop()
        self._timeline = None

    def follow(
        self,
        optimizer: Any,
        guarded: Callable[[Callable[[], object]], None],
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Let the steps of an optimizer end the steps of the recording.

        Args:
            optimizer: The optimizer.
            guarded: Calls what the recorder does; an exception never reaches the script.
            on_step: Called before each.
        """

        def tracked(step: Callable[[], object]) -> object:
            guarded(on_step)
            result = step()
            guarded(self.step_ended)
            return result

        surround_step(optimizer, tracked)

    def fetching(self) -> Context:
        """The rank waits for its next batch; its phase."""
        self._begin()
        return collect.phase("data")

    def fetched(self, num_samples: int) -> None:
        """A batch has come."""
        self._samples.fetched(num_samples)

    def forward_begins(self, num_samples: int) -> Context:
        """A forward pass for training; its phase.

        Args:
            num_samples: Samples by its input, counted where no data loader has counted them.
        """
        self._begin()
        self._trains = True
        self._samples.seen(num_samples)
        return collect.phase("forward")

    def computes(self, num_samples: int) -> None:
        """A call that trains begins, on more samples; its phases are known only at its end."""
        self._begin()
        self._trains = True
        self._samples.fetched(num_samples)

    def evaluates(self, *, is_over: bool = False) -> Context | None:
        """A forward pass of the trained model without training; its phase, None where it has none.

        Args:
            is_over: Whether it lies behind, and its time is known by the batches before it alone.
        """
        # Between backward and update it would be a part of the step, as where a script marks it.
        if self._has_gradients or self._is_marked:
            return None
        session = self._session
        session.num_passes += 1
        if session.num_passes <= session.num_usual:
            return None if is_over else collect.phase("forward")
        if self._step is None:
            return None
        session.has_evaluation = True
        if not session.num_ended:
            self._drop()
            return None
        if not self._trains:
            self._samples.clear()
        return _hooks.evaluation(after_training=self._trains)

    def backward(self) -> Context:
        """A backward pass; its phase."""
        self._has_gradients = self._step is not None
        self._samples.backward()
        _hooks.extend_forward()
        return collect.phase("backward")

    @contextlib.contextmanager
    def marked_step(self, samples: int, warmup: bool) -> Iterator[None]:
        """A step that the script marks itself; from the first one on, no others are looked for.

        Args:
            samples: Samples of this rank, as the script gives them.
            warmup: Whether the script excludes it from results.

        Raises:
            SystemExit: As many steps as asked for have been measured.
        """
        self._drop()
        self._is_marked = True
        self._open(self._settings.batch_size or samples, warmup)
        try:
            yield
        except BaseException:
            self._drop()
            raise
        self._close()
        self._count()

    def step_ended(self) -> None:
        """The update is done.

        Raises:
            SystemExit: As many steps as asked for have been measured.
        """
        if self._is_marked:
            return
        try:
            if self._step is not None:
                # An unknown batch counts as one sample: rates are steps per second then.
                _hooks.samples(self._settings.batch_size or self._samples.total or 1)
                self._close()
                self._session.step_ended()
        finally:
            # Also of a rank whose recording fails: all ranks have to end at the same step.
            self._session.num_passes = 0
            self._count()
        self._begin()

    def _count(self) -> None:
        # Also a step that was not seen: all ranks have to end at the same one.
        self._session.num_ended += 1
        num_warmup = self._settings.num_warmup_steps
        if self.num_ended - num_warmup >= self._settings.num_timeline_steps:
            self._end_timeline()
        if not self._turns.update_ended(self._num_recorded):
            raise SystemExit(0)
        # Steps at the begin of a turn are on top of those asked for: the launching side counts.
        wanted = None if self._turns.is_active else self._settings.num_steps
        if wanted is not None and self.num_total - num_warmup >= wanted:
            raise SystemExit(0)

    def end(self, *, has_failed: bool = False) -> None:
        """The script is over; the open step counts as an evaluation, unless the rank has failed."""
        is_evaluation = self._session.has_evaluation and self.num_ended > 0 and not self._trains
        if self._step is not None and is_evaluation and not has_failed:
            _hooks.end_evaluation()
        self._drop()
        num_with_evaluation = self._session.num_with_evaluation
        if num_with_evaluation and num_with_evaluation >= self.num_ended - 1:
            message = (
                "a forward pass that is not for training comes in each step, and steps in which "
                "all ranks have one are not counted: mark the steps in the script"
            )
            print_problem(message)
            _hooks.note({"kind": "problem", "message": message})
        self._end_timeline()

    def _begin(self) -> None:
        if self._step is None and not self._is_marked:
            self._open(0, self._session.has_evaluation)

    def _open(self, samples: int, warmup: bool) -> None:
        self._session.has_begun = True
        self._samples.clear()
        self._trains = self._has_gradients = False
        is_early = self.num_ended < self._settings.num_warmup_steps
        if not is_early and self._session.timeline and not self._session.had_timeline:
            self._session.had_timeline = True
            self._timeline = collect.timeline(Path(self._session.timeline))
            self._timeline.__enter__()
        self._step = _hooks.recorded_step(samples, warmup or is_early)
        self._step.__enter__()

    def _close(self) -> None:
        if self._step is not None:
            step, self._step = self._step, None
            step.__exit__(None, None, None)
            self._num_recorded += 1

    def _drop(self) -> None:
        if self._step is not None:
            step, self._step = self._step, None
            error = StepAbandonedError()
            with contextlib.suppress(StepAbandonedError):
                step.__exit__(StepAbandonedError, error, None)

    def _end_timeline(self) -> None:
        if self._timeline is not None:
            timeline, self._timeline = self._timeline, None
            timeline.__exit__(None, None, None)
