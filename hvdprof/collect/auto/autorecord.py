"""Records the training of an unmodified script: functions of `horovod.torch` are replaced.

``DistributedOptimizer`` begins the recording, or the first update of a plain optimizer whose
gradients the script has reduced itself. Torch's data loaders, forward passes, backward passes and
updates give the phases; collectives that the script calls itself count as blocked. A failure in
here ends the recording and never the training.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeVar

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.discovery import (
    REDUCING,
    ForwardDiscovery,
    Nameless,
    PlainUpdates,
    TrainedOptimizers,
    device_of,
    time_updates,
)
from hvdprof.collect.auto.loop_input import LoopInput, interpreter_monitoring
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.auto.replaced_calls import BLOCKING, hook_torch, tensor_name_of
from hvdprof.collect.auto.session_recording import ELASTIC, ElasticSessions
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.auto.training_loop import LoopProgress, loop_place
from hvdprof.collect.devices.copy_source import COPY_WAITS
from hvdprof.collect.engines.forward_watch import first_length
from hvdprof.collect.engines.torch_types import Model, Optimizer
from hvdprof.collect.guarded_context import opened, print_problem, replace_call
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.collect.standing import LoopStanding
from hvdprof.collect.steps.step_marks import BACKWARD_PHASE, OPTIMIZER_PHASE
from hvdprof.collect.steps.time_source import gpu_events
from hvdprof.rundir.launch_format import AutoSettings
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, LOST_PEER, RAISED, USER

P = ParamSpec("P")
R = TypeVar("R")


class AutoRecorder(ProcessRecording):
    """The recording of one process, from its first distributed optimizer on.

    That of an elastic job consists of sessions, each from the call of the script's function to the
    reset that ends it.

    Args:
        hvd: The module ``horovod.torch``; None where something else reduces.
        settings: What `hvdprof run` asked for.
    """

    def __init__(self, hvd: ModuleType | None, settings: AutoSettings) -> None:
        super().__init__(StepTracker(settings))
        self._hvd = hvd
        self._settings = settings
        self._optimizers = TrainedOptimizers()
        self._forwards = ForwardDiscovery(self._forward, self.tracker.evaluates, self.fails)
        self._updates = PlainUpdates(self._updated, self.fails)
        self._loop_input = LoopInput(self, self._report_once, interpreter_monitoring())
        self._loop_progress = LoopProgress()
        self._is_torch_hooked = self._is_of_script = False
        self._device = ""
        self._reported: set[str] = set()
        self._sessions: ElasticSessions | None = None
        self._session_number: int | None = None

    def hook_horovod(self) -> None:
        """Replace the functions of Horovod that a script calls."""
        hvd = self._hvd
        assert hvd is not None
        replace_call(hvd, "DistributedOptimizer", self._starting)
        replace_call(hvd, "shutdown", self.ending)
        for name in BLOCKING:
            if hasattr(hvd, name):
                replace_call(hvd, name, functools.partial(self._blocked, name))
        self._updates.hook()
        if os.environ.get(ELASTIC) == "1":
            self._sessions = ElasticSessions(hvd, self)
            self._sessions.hook_horovod()

    @property
    def num_total(self) -> int:
        """Updates of the job so far, as this rank counts them."""
        return self.tracker.num_total

    @property
    def num_ended(self) -> int:
        """Updates of the running session."""
        return self.tracker.num_ended

    def begin_session(self, number: int, num_before: int) -> None:
        """A session of an elastic job begins, whose ranks and size differ from those before."""
        self.guarded(lambda: self._begin_session(number, num_before))

    def end_session(self, why: str) -> None:
        """The session is over; a reset follows, or the end of the script."""
        self.guarded(lambda: self._end_session(why))

    def _begin_session(self, number: int, num_before: int) -> None:
        paths = PassPaths(Path(os.environ[RECORDER_DIR]).parent).session(number)
        has_timeline = bool(self._settings.timeline)
        timeline = str(paths.timeline(IMPLICIT_SEGMENT)) if has_timeline else ""
        self._session_number = number
        self.tracker.begin_session(num_before, timeline)
        self._optimizers.begin_session()
        if self._optimizers:
            self._begin()

    def _end_session(self, why: str) -> None:
        if self._session_number is None or self._sessions is None:
            return
        self._session_number = None
        self._optimizers.end_session()
        self._forwards.remove()
        _hooks.note(self._sessions.end_line(why))
        if why in (LOST_PEER, RAISED):
            # No peer is left to compare clocks with, or that waits for this rank.
            self.tracker.break_off()
            (_hooks.break_off if why == LOST_PEER else _hooks.abandon)()
            return
        self.tracker.end()
        collect.stop()

    def _starting(self, make: Callable[P, Optimizer]) -> Callable[P, Optimizer]:
        @functools.wraps(make)
        def make_and_watch(*args: P.args, **kwargs: P.kwargs) -> Optimizer:
            optimizer = make(*args, **kwargs)
            self.guarded(lambda: self._attach(optimizer))
            return optimizer

        return make_and_watch

    def begin_for_script(self) -> bool:
        """Begin where the script starts the recording itself; false where that is left to it."""
        # Between the resets of an elastic job it numbers the sessions by itself.
        self._is_of_script = self._sessions is None and self.begin()
        return self._is_of_script

    def _attach(self, optimizer: Optimizer) -> None:
        self._updates.remove()
        if self.is_over():
            return
        if self._optimizers:
            self._attach_further(optimizer)
        elif self.has_begun or self.begin():
            self._optimizers.add(optimizer, is_watched=True)
            self._follow(optimizer)

    def _updated(self, optimizer: Optimizer, is_reduced: bool) -> bool:
        """A plain optimizer has made an update; whether it is recorded from here on."""
        if self.is_over():
            return False
        if self._optimizers:
            # A second model, as in adversarial training.
            if optimizer not in self._optimizers and self.is_here():
                self._forwards.add(optimizer, self.tracker.num_ended)
                time_updates(optimizer, self.is_here)
            return self.is_here()
        trains = self.has_begun or self.trains(optimizer, is_reduced=is_reduced)
        if not trains or not (self.has_begun or self.begin()):
            return False
        self.trains_here()
        self.add_first(optimizer)
        self._follow(optimizer)
        self.tracker.step_ended()
        return True

    def trains(self, optimizer: Optimizer, *, is_reduced: bool) -> bool:
        """Whether the first update of a plain optimizer begins the recording."""
        # A rank on its own has nothing to reduce. Others may train something of their own.
        hvd = self._hvd
        is_alone = hvd is not None and hvd.is_initialized() and hvd.size() == 1
        return is_reduced or is_alone

    def add_first(self, optimizer: Optimizer) -> None:
        """Record a plain optimizer from here on; its updates end the steps."""
        self._optimizers.add(optimizer, is_watched=False)
        time_updates(optimizer, self.is_here)

    def model_of(self, optimizer: Optimizer) -> Model:
        """What names the gradients of an optimizer, and how they are reduced."""
        return Nameless()

    def _follow(self, optimizer: Optimizer) -> None:
        # First: a rank whose recording fails still has to end its steps with the others.
        self.tracker.follow(optimizer, self.guarded, self._updates_begin)
        if not self._is_torch_hooked:
            self._is_torch_hooked = True
            hook_torch(sys.modules["torch"], self)
        if self._sessions is None or self._session_number is not None:
            self._begin()

    def _updates_begin(self) -> None:
        self.trains_here()
        self._loop_progress.updates()
        self._loop_input.updates()

    def _attach_further(self, optimizer: Optimizer) -> None:
        # A second model, as in adversarial training: its gradients count, the first one's updates
        # end the steps.
        self._optimizers.add(optimizer, is_watched=True)
        if self._forwards.is_watching and not self.tracker.has_begun:
            collect.watch(self.model_of(optimizer), optimizer)
            self._forwards.add(optimizer, self.tracker.num_ended)
        elif self._forwards.is_watching and self.is_own():
            self._report_once(
                "an optimizer that was made after the first steps is not recorded: the updates "
                "of the first one alone end a step"
            )

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            print_problem(message)
            _hooks.note({"kind": "problem", "message": message})

    def _begin(self) -> None:
        optimizers = list(self._optimizers)
        if not optimizers:
            return
        self._device = device_of(optimizers[0])
        if self._device.startswith("cuda"):
            COPY_WAITS.watch(*gpu_events(self._device), self._report_once)
        PROCESS.loop_standing = self.loop_standing
        if not self._is_of_script:
            collect.start(device=self._device, session=self._session_number)
        if self._sessions is not None:
            _hooks.note(self._sessions.line())
        for optimizer in self._optimizers.watched():
            collect.watch(self.model_of(optimizer), optimizer)
        self._forwards.start(optimizers)

    def fetching(self) -> AbstractContextManager[None]:
        """The rank waits for its next batch."""
        return opened(self.fails, self.tracker.fetching)

    def fetched(self, batch: object, iterator: object) -> None:
        """A batch has come from an iterator of a data loader."""
        self._loop_progress.fetched(iterator)
        self.guarded(lambda: self.tracker.fetched(first_length(batch)))
        COPY_WAITS.fetched(batch)

    def exhausted(self, iterator: object) -> None:
        """An iterator of a data loader has no more batches."""
        self._loop_progress.exhausted(iterator)

    def loop_standing(self) -> LoopStanding:
        """Where the rank is in the loop that trains; for any thread."""
        return LoopStanding(
            loop=loop_place(self._loop_input.loop, self._thread, self.own_exception()),
            num_updates=self.tracker.num_total,
            num_epochs=self._loop_progress.num_epochs,
        )

    def computes_gradients(self, *, accumulates: bool) -> AbstractContextManager[None]:
        """A backward pass; within a model it is a part of the forward pass."""
        self.guarded(self._discover)
        if accumulates:
            self.guarded(self._loop_input.computes_gradients)
        return opened(self.fails, self._backward, accumulates)

    def _backward(self, accumulates: bool) -> AbstractContextManager[None]:
        if accumulates:
            return self.tracker.backward()
        return nullcontext() if self._forwards.is_inside else collect.phase(BACKWARD_PHASE)

    @contextmanager
    def scaled_update(self, optimizer: object) -> Iterator[None]:
        """An update through a ``GradScaler``; one that is skipped ends the step nevertheless.

        Its batch was computed and reduced. The other ranks skip it as well, unless the script
        reduces after it looks for infinities.
        """
        num_before = self.tracker.num_total
        with opened(self.fails, collect.phase, OPTIMIZER_PHASE):
            yield
        self.guarded(lambda: self._scaled(optimizer, num_before))

    def _scaled(self, optimizer: object, num_before: int) -> None:
        if self._optimizers.is_first(optimizer) and self.tracker.num_total == num_before:
            self.tracker.step_ended()

    def _discover(self) -> None:
        num_ended = self.tracker.num_ended
        if self._forwards.is_due(num_ended):
            self._look_for_device()
            self._forwards.look(num_ended)

    def _look_for_device(self) -> None:
        now = next((device_of(optimizer) for optimizer in self._optimizers), self._device)
        if now != self._device:
            self._report_once(
                f"the model moved from {self._device} to {now} after its optimizer was made: times "
                f"are taken on {self._device}; make the optimizer afterwards"
            )

    def _forward(self, inputs: object) -> AbstractContextManager[None] | None:
        if not self.is_here():
            return None
        COPY_WAITS.forward_begins(inputs)
        return self.tracker.forward_begins(first_length(inputs))

    def _blocked(self, name: str, call: Callable[P, R]) -> Callable[P, R]:
        updates, reduces = self._updates, name in REDUCING
        inner = call if reduces else updates.nested(call)
        tensor_name = tensor_name_of(call)

        @functools.wraps(call)
        def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
            if reduces and updates.is_looking:
                self.guarded(updates.reduced)
            if not self.is_here():
                return inner(*args, **kwargs)
            kind = GRAD_REDUCE if reduces else USER
            with _hooks.blocked_in((name, tensor_name(args, kwargs)), kind):
                return inner(*args, **kwargs)

        return waiting

    def trains_here(self) -> None:
        """The first update of the job: this thread trains, even where another one began."""
        super().trains_here()
        if not self.tracker.num_total:
            self._forwards.move_here()

    def is_here(self) -> bool:
        """Whether this thread is recorded right now; between two sessions it is not."""
        # Also where the script records itself: its own collectives are seen here alone.
        is_in_session = self._sessions is None or self._session_number is not None
        return is_in_session and self.is_own()

    def end(self) -> None:
        """Complete the recording; a rank that failed does not wait for the others."""
        self.guarded(self._loop_input.remove)
        self.guarded(self._forwards.remove)
        super().end()


def record_training(hvd: ModuleType) -> None:
    """Hook ``horovod.torch`` as `hvdprof run` asked for; nothing where that fails."""
    try:
        recorder = AutoRecorder(hvd, AutoSettings.from_environment())
        recorder.hook_horovod()
        PROCESS.begin_for_script = recorder.begin_for_script
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
