"""Records the training of an unmodified script: what `horovod.torch` offers is bracketed.

``DistributedOptimizer`` begins the recording; torch's data loaders, forward passes and
``torch.autograd.backward`` give the phases, collectives that the script calls itself count as
blocked. Whatever fails in here ends the recording and never the training.
"""

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvdprof import collect
from hvdprof.collect.auto_settings import AutoSettings
from hvdprof.collect.elastic_sessions import (
    ELASTIC,
    LOST_PEER,
    RAISED,
    SESSION,
    SESSION_END,
    ElasticSessions,
)
from hvdprof.collect.forward_watch import ForwardWatch, first_length
from hvdprof.collect.opening import RECORDER_DIR
from hvdprof.collect.recorder import IMPLICIT_SEGMENT, print_problem
from hvdprof.collect.step_tracker import StepTracker
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
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_object",
    "allgather_object",
)


class AutoRecorder:
    """The recording of one process, from its first distributed optimizer on.

    That of an elastic job consists of sessions, each from the call of the script's function to the
    reset that ends it.
    """

    def __init__(self, hvd: Any, settings: AutoSettings) -> None:
        self._hvd = hvd
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._settings = settings
        self._tracker = StepTracker(settings)
        self._optimizers: list[Any] = []
        self._forwards: ForwardWatch | None = None
        self._looked_after, self._is_settled = -1, False
        self._is_bracketed = False
        self._has_failed = False
        self._is_over = False
        self._sessions: ElasticSessions | None = None
        self._session_number: int | None = None
        self._num_lasting = 0

    def bracket_horovod(self) -> None:
        """Put brackets around what a script calls of Horovod."""
        hvd = self._hvd
        hvd.DistributedOptimizer = self._starting(hvd.DistributedOptimizer)
        hvd.shutdown = self._ending(hvd.shutdown)
        for name in _BLOCKING:
            if hasattr(hvd, name):
                setattr(hvd, name, self._blocked(getattr(hvd, name)))
        if os.environ.get(ELASTIC) == "1":
            self._sessions = ElasticSessions(hvd, self)
            self._sessions.bracket()

    @property
    def num_total(self) -> int:
        """Updates of the job so far, as this rank counts them."""
        return self._tracker.num_total

    @property
    def num_ended(self) -> int:
        """Updates of the running session."""
        return self._tracker.num_ended

    def begin_session(self, number: int, num_before: int) -> None:
        """A session of an elastic job begins, in which ranks and size are others than before."""
        self._guarded(lambda: self._begin_session(number, num_before))

    def end_session(self, why: str) -> None:
        """The session is over; a reset follows, or the end of the script."""
        self._guarded(lambda: self._end_session(why))

    def _begin_session(self, number: int, num_before: int) -> None:
        paths = PassPaths(Path(os.environ[RECORDER_DIR]).parent).session(number)
        has_timeline = bool(self._settings.timeline)
        timeline = str(paths.timeline(IMPLICIT_SEGMENT)) if has_timeline else ""
        self._session_number = number
        self._tracker.begin_session(num_before, timeline)
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
            self._tracker.break_off()
            (collect.break_off if why == LOST_PEER else collect.abandon)()
            return
        self._tracker.end()
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
            self._guarded(lambda: self._attach(optimizer))
            return optimizer

        return make_and_watch

    def _ending(self, shutdown: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(shutdown)
        def end_and_shut_down() -> None:
            self.end()
            shutdown()

        return end_and_shut_down

    def _attach(self, optimizer: Any) -> None:
        if self._optimizers:
            # A second model, as in adversarial training: its gradients count, the first one's
            # updates end the steps.
            self._optimizers.append(optimizer)
            if self._forwards is not None and not self._tracker.has_begun:
                collect.watch(_Nameless(), optimizer)
            return
        if self._is_over or collect.is_active():
            return
        self._optimizers.append(optimizer)
        self._thread = threading.get_ident()
        # First: a rank whose recording fails still has to end its steps with the others.
        self._tracker.follow(optimizer)
        collect.govern_steps(self._tracker.marked_step)
        self._bracket_process()
        if self._sessions is None or self._session_number is not None:
            self._begin()

    def _begin(self) -> None:
        first = self._optimizers[0]
        parameters = [one for group in first.param_groups for one in group["params"]]
        collect.start(device=str(parameters[0].device), session=self._session_number)
        if self._sessions is not None:
            collect.note(SESSION, **self._sessions.line())
        for optimizer in self._optimizers:
            collect.watch(_Nameless(), optimizer)
        torch = sys.modules["torch"]
        self._forwards = ForwardWatch(torch, parameters, self._forward, self._tracker.evaluates)

    def _bracket_process(self) -> None:
        if self._is_bracketed:
            return
        self._is_bracketed = True
        # After hvd.init(), which registers its own end: ours comes first.
        atexit.register(self.end)
        self._notice_failure()
        self._bracket_torch(sys.modules["torch"])

    def _bracket_torch(self, torch: Any) -> None:
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        fetch, tracker = iterator.__next__, self._tracker

        @functools.wraps(fetch)
        def timed_fetch(own: Any) -> Any:
            if not self._is_here():
                return fetch(own)
            with tracker.fetching():
                batch = fetch(own)
            self._guarded(lambda: tracker.fetched(first_length(batch)))
            return batch

        iterator.__next__ = timed_fetch
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def timed_backward(*args: Any, **kwargs: Any) -> None:
            if not self._is_here():
                backward(*args, **kwargs)
                return
            self._guarded(self._discover)
            with tracker.backward():
                backward(*args, **kwargs)

        torch.autograd.backward = timed_backward

    def _discover(self) -> None:
        # Modules are also wrapped after the optimizer has been made, by torch.compile for one.
        num_ended = self._tracker.num_ended
        if self._forwards is None or num_ended == self._looked_after or self._is_settled:
            return
        self._looked_after = num_ended
        if num_ended < DISCOVERY_STEPS:
            self._forwards.look_for_modules()
        else:
            self._is_settled = True
            self._forwards.settle()

    def _forward(self, inputs: Any) -> Any:
        if not self._is_here():
            return None
        return self._tracker.forward_begins(first_length(inputs))

    def _blocked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            if not self._is_here():
                return call(*args, **kwargs)
            with collect.blocked():
                return call(*args, **kwargs)

        return waiting

    def _is_here(self) -> bool:
        # A forked worker inherits the brackets but not the recording, and threads that fetch or
        # serve are not the training.
        is_own = os.getpid() == self._pid and threading.get_ident() == self._thread
        is_recorded = self._sessions is None or self._session_number is not None
        return is_own and is_recorded and not self._is_over

    def _notice_failure(self) -> None:
        show = sys.excepthook

        def note_and_show(*error: Any) -> None:
            self._has_failed = True
            show(*error)

        sys.excepthook = note_and_show

    def end(self) -> None:
        """Complete the recording; a rank that failed does not wait for the others."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        if self._forwards is not None:
            self._guarded(self._forwards.remove)
        self._guarded(self._tracker.end)
        self._guarded(collect.abandon if self._has_failed else collect.stop)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            if collect.is_active():
                collect.give_up(error)
            else:
                print_problem(f"nothing is recorded: {type(error).__name__}: {error}")


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
