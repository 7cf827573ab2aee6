"""Records the training of an unmodified script: what `horovod.torch` offers is bracketed.

``DistributedOptimizer`` begins the recording; torch's data loaders, forward passes and
``torch.autograd.backward`` give the phases, collectives that the script calls itself count as
blocked. Whatever fails in here ends the recording and never the training.
"""

import functools
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvdprof import collect
from hvdprof.collect.auto.auto_settings import AutoSettings
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.auto.session_recording import (
    ELASTIC,
    LOST_PEER,
    RAISED,
    SESSION,
    SESSION_END,
    ElasticSessions,
)
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.engines.forward_watch import ForwardWatch, first_length
from hvdprof.collect.recorder import IMPLICIT_SEGMENT
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.layout import PassPaths

DISCOVERY_STEPS = 3

_BLOCKING = (
    "allreduce",
    "allreduce_",
    "grouped_allreduce",
    "grouped_allreduce_",
    "allgather",
    "grouped_allgather",
    "broadcast",
    "broadcast_",
    "alltoall",
    "reducescatter",
    "grouped_reducescatter",
    "synchronize",
    "barrier",
    "join",
    "add_process_set",
    "remove_process_set",
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_object",
    "allgather_object",
)


class AutoRecorder(ProcessRecording):
    """The recording of one process, from its first distributed optimizer on.

    That of an elastic job consists of sessions, each from the call of the script's function to the
    reset that ends it.
    """

    def __init__(self, hvd: Any, settings: AutoSettings) -> None:
        super().__init__(StepTracker(settings))
        self._hvd = hvd
        self._settings = settings
        self._optimizers: list[weakref.ref[Any]] = []
        self._device = ""
        self._told: set[str] = set()
        self._forwards: ForwardWatch | None = None
        self._looked_after, self._is_settled = -1, False
        self._sessions: ElasticSessions | None = None
        self._session_number: int | None = None
        self._num_lasting = 0

    def bracket_horovod(self) -> None:
        """Put brackets around what a script calls of Horovod."""
        hvd = self._hvd
        _replace(hvd, "DistributedOptimizer", self._starting)
        _replace(hvd, "shutdown", self.ending)
        for name in _BLOCKING:
            if hasattr(hvd, name):
                _replace(hvd, name, self._blocked)
        if os.environ.get(ELASTIC) == "1":
            self._sessions = ElasticSessions(hvd, self)
            self._sessions.bracket()

    @property
    def num_total(self) -> int:
        """Updates of the job so far, as this rank counts them."""
        return self.tracker.num_total

    @property
    def num_ended(self) -> int:
        """Updates of the running session."""
        return self.tracker.num_ended

    def begin_session(self, number: int, num_before: int) -> None:
        """A session of an elastic job begins, in which ranks and size are others than before."""
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
        self._optimizers = [made for made in self._optimizers if made() is not None]
        self._num_lasting = len(self._optimizers)
        if self._optimizers:
            self._begin()

    def _end_session(self, why: str) -> None:
        if self._session_number is None or self._sessions is None:
            return
        self._session_number = None
        self._let_go()
        collect.note(SESSION_END, **self._sessions.end_line(why))
        if why in (LOST_PEER, RAISED):
            # Nobody is there any more to compare clocks with, or will wait for this rank.
            self.tracker.break_off()
            (collect.break_off if why == LOST_PEER else collect.abandon)()
            return
        self.tracker.end()
        collect.stop()

    def _let_go(self) -> None:
        # What the script's function made itself it will make again.
        del self._optimizers[self._num_lasting :]
        if self._forwards is not None:
            self._forwards.remove()
        self._forwards, self._looked_after, self._is_settled = None, -1, False

    def _starting(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def make_and_watch(*args: Any, **kwargs: Any) -> Any:
            optimizer = make(*args, **kwargs)
            self.guarded(lambda: self._attach(optimizer))
            return optimizer

        return make_and_watch

    def _attach(self, optimizer: Any) -> None:
        if self._optimizers:
            # A second model, as in adversarial training: its gradients count, the first one's
            # updates end the steps.
            self._optimizers.append(weakref.ref(optimizer))
            if self._forwards is not None and not self.tracker.has_begun:
                collect.watch(_Nameless(), optimizer)
            elif self._forwards is not None and self.is_own():
                self._tell(
                    "an optimizer that was made after the first steps is not recorded: the updates "
                    "of the first one alone end a step"
                )
            return
        is_first = not self.has_begun
        if is_first and not self.begin():
            return
        self._optimizers.append(weakref.ref(optimizer))
        # First: a rank whose recording fails still has to end its steps with the others.
        self.tracker.follow(optimizer, self.trains_here)
        if is_first:
            self._bracket_torch(sys.modules["torch"])
        if self._sessions is None or self._session_number is not None:
            self._begin()

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            print_problem(message)
            collect.note("problem", message=message)

    def _alive(self) -> list[Any]:
        # Not kept alive: a script may drop a model to make room for the next one.
        return [one for made in self._optimizers if (one := made()) is not None]

    def _begin(self) -> None:
        optimizers = self._alive()
        if not optimizers:
            return
        first = optimizers[0]
        parameters = [one for group in first.param_groups for one in group["params"]]
        self._device = _device_of(first)
        collect.start(device=self._device, session=self._session_number)
        if self._sessions is not None:
            collect.note(SESSION, **self._sessions.line())
        for optimizer in optimizers:
            collect.watch(_Nameless(), optimizer)
        self._forwards = ForwardWatch(
            sys.modules["torch"], parameters, self._forward, self.tracker.evaluates, self.fails
        )

    def _bracket_torch(self, torch: Any) -> None:
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        fetch, tracker = iterator.__next__, self.tracker

        @functools.wraps(fetch)
        def timed_fetch(own: Any) -> Any:
            if not self.is_here():
                return fetch(own)
            with tracker.fetching():
                batch = fetch(own)
            self.guarded(lambda: tracker.fetched(first_length(batch)))
            return batch

        iterator.__next__ = timed_fetch
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def timed_backward(*args: Any, **kwargs: Any) -> None:
            if not self.is_here():
                backward(*args, **kwargs)
                return
            self.guarded(self._discover)
            with tracker.backward():
                backward(*args, **kwargs)

        torch.autograd.backward = timed_backward

    def _discover(self) -> None:
        # Modules are also wrapped after the optimizer has been made, by torch.compile for one.
        num_ended = self.tracker.num_ended
        if self._forwards is None or num_ended == self._looked_after or self._is_settled:
            return
        self._looked_after = num_ended
        self._look_for_device()
        if num_ended < DISCOVERY_STEPS:
            self._forwards.look_for_modules()
        else:
            self._is_settled = True
            self._forwards.settle()

    def _look_for_device(self) -> None:
        now = next((_device_of(one) for one in self._alive()), self._device)
        if now != self._device:
            self._tell(
                f"the model moved from {self._device} to {now} after its optimizer was made: times "
                f"are taken on {self._device}; make the optimizer afterwards"
            )

    def _forward(self, inputs: Any) -> Any:
        if not self.is_here():
            return None
        return self.tracker.forward_begins(first_length(inputs))

    def _blocked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            if not self.is_here():
                return call(*args, **kwargs)
            with collect.blocked():
                return call(*args, **kwargs)

        return waiting

    def trains_here(self) -> None:
        """The first update of the job: this is the thread that trains, whichever began."""
        super().trains_here()
        if not self.tracker.num_total and self._forwards is not None:
            self._forwards.move_here()

    def is_here(self) -> bool:
        """Whether this thread is recorded right now; between two sessions it is not."""
        # Also where the script records itself: its own collectives are seen here alone.
        is_in_session = self._sessions is None or self._session_number is not None
        return is_in_session and self.is_own()

    def end(self) -> None:
        """Complete the recording; a rank that failed does not wait for the others."""
        if self._forwards is not None:
            self.guarded(self._forwards.remove)
        super().end()


def _device_of(optimizer: Any) -> str:
    parameters = (one for group in optimizer.param_groups for one in group["params"])
    return str(next(parameters).device)


def _replace(hvd: Any, name: str, bracket: Callable[[Callable[..., Any]], Any]) -> None:
    """Put a bracket around a function, also where it was defined.

    There pickle looks it up, a script may import it from, and Horovod's own backward passes too.
    """
    call = getattr(hvd, name)
    bracketed = bracket(call)
    setattr(hvd, name, bracketed)
    home = sys.modules.get(getattr(call, "__module__", None) or "")
    if home is not None and vars(home).get(name) is call:
        setattr(home, name, bracketed)


class _Nameless:
    """Stands in for the model: Horovod's optimizer knows the names of its parameters itself."""

    def named_parameters(self) -> tuple[()]:
        """None of its own."""
        return ()


def record_training(hvd: Any) -> None:
    """Bracket ``horovod.torch`` as `hvdprof run` asked for; nothing where it cannot be done."""
    try:
        AutoRecorder(hvd, AutoSettings.from_environment()).bracket_horovod()
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
