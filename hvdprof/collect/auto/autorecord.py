"""Records the training of an unmodified script: functions of `horovod.torch` are replaced.

``DistributedOptimizer`` begins the recording; torch's data loaders, forward passes and
``torch.autograd.backward`` give the phases, collectives that the script calls itself count as
blocked. A failure in here ends the recording and never the training.
"""

import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect.auto.auto_settings import AutoSettings
from hvdprof.collect.auto.discovery import ForwardDiscovery, TrainedOptimizers
from hvdprof.collect.auto.process_recording import ProcessRecording
from hvdprof.collect.auto.session_recording import ELASTIC, ElasticSessions
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.engines.forward_watch import first_length
from hvdprof.collect.engines.torch_types import Optimizer, Parameter, parameters_of
from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recorder_format import LOST_PEER, RAISED

P = ParamSpec("P")
R = TypeVar("R")

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

    def __init__(self, hvd: ModuleType, settings: AutoSettings) -> None:
        super().__init__(StepTracker(settings))
        self._hvd = hvd
        self._settings = settings
        self._optimizers = TrainedOptimizers()
        self._forwards = ForwardDiscovery(self._forward, self.tracker.evaluates, self.fails)
        self._device = ""
        self._reported: set[str] = set()
        self._sessions: ElasticSessions | None = None
        self._session_number: int | None = None

    def hook_horovod(self) -> None:
        """Replace the functions of Horovod that a script calls."""
        hvd = self._hvd
        _replace(hvd, "DistributedOptimizer", self._starting)
        _replace(hvd, "shutdown", self.ending)
        for name in _BLOCKING:
            if hasattr(hvd, name):
                _replace(hvd, name, self._blocked)
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

    def _attach(self, optimizer: Optimizer) -> None:
        if self._optimizers:
            self._attach_further(optimizer)
            return
        is_first = not self.has_begun
        if is_first and not self.begin():
            return
        self._optimizers.add(optimizer)
        # First: a rank whose recording fails still has to end its steps with the others.
        self.tracker.follow(optimizer, self.trains_here)
        if is_first:
            self._hook_torch(sys.modules["torch"])
        if self._sessions is None or self._session_number is not None:
            self._begin()

    def _attach_further(self, optimizer: Optimizer) -> None:
        # A second model, as in adversarial training: its gradients count, the first one's updates
        # end the steps.
        self._optimizers.add(optimizer)
        if self._forwards.is_watching and not self.tracker.has_begun:
            collect.watch(_Nameless(), optimizer)
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
        self._device = _device_of(optimizers[0])
        collect.start(device=self._device, session=self._session_number)
        if self._sessions is not None:
            _hooks.note(self._sessions.line())
        for optimizer in optimizers:
            collect.watch(_Nameless(), optimizer)
        self._forwards.start(optimizers[0])

    def _hook_torch(self, torch: ModuleType) -> None:
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        fetch, tracker = iterator.__next__, self.tracker

        @functools.wraps(fetch)
        def timed_fetch(own: object) -> object:
            if not self.is_here():
                return fetch(own)
            with tracker.fetching():
                batch = fetch(own)
            self.guarded(lambda: tracker.fetched(first_length(batch)))
            return batch

        iterator.__next__ = timed_fetch
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def timed_backward(*args: object, **kwargs: object) -> None:
            if not self.is_here():
                backward(*args, **kwargs)
                return
            self.guarded(self._discover)
            with tracker.backward():
                backward(*args, **kwargs)

        torch.autograd.backward = timed_backward

    def _discover(self) -> None:
        num_ended = self.tracker.num_ended
        if self._forwards.is_due(num_ended):
            self._look_for_device()
            self._forwards.look(num_ended)

    def _look_for_device(self) -> None:
        now = next((_device_of(one) for one in self._optimizers), self._device)
        if now != self._device:
            self._report_once(
                f"the model moved from {self._device} to {now} after its optimizer was made: times "
                f"are taken on {self._device}; make the optimizer afterwards"
            )

    def _forward(self, inputs: object) -> AbstractContextManager[None] | None:
        if not self.is_here():
            return None
        return self.tracker.forward_begins(first_length(inputs))

    def _blocked(self, call: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(call)
        def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
            if not self.is_here():
                return call(*args, **kwargs)
            with collect.blocked():
                return call(*args, **kwargs)

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
        self.guarded(self._forwards.remove)
        super().end()


def _device_of(optimizer: Optimizer) -> str:
    return str(parameters_of(optimizer)[0].device)


def _replace(
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


class _Nameless:
    """In place of the model: Horovod's optimizer knows the names of its parameters itself."""

    def named_parameters(self) -> tuple[tuple[str, Parameter], ...]:
        """None of its own."""
        return ()


def record_training(hvd: ModuleType) -> None:
    """Hook ``horovod.torch`` as `hvdprof run` asked for; nothing where that fails."""
    try:
        AutoRecorder(hvd, AutoSettings.from_environment()).hook_horovod()
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")
