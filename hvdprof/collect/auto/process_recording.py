"""What every automatic recording of a process has in common, for any engine."""

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hvdprof import collect
from hvdprof.collect import _hooks
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.guarded_context import print_problem
from hvdprof.rundir.launch_format import AutoSettings

P = ParamSpec("P")
R = TypeVar("R")


class ProcessRecording:
    """The recording of one process and of the thread of it that trains."""

    def __init__(self, tracker: StepTracker) -> None:
        self.tracker = tracker
        self.has_begun = False
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._is_over = False
        self._uncaught_before: object = None

    def begin(self) -> bool:
        """Begin on this thread; false where it has begun, is over, or the script records itself."""
        if self.has_begun or self._is_over or _hooks.is_active():
            return False
        self.has_begun = True
        _hooks.mark_steps_by(self.tracker.marked_step)
        self._thread = threading.get_ident()
        # After hvd.init(), which registers its own end: ours comes first.
        atexit.register(self.end)
        self._uncaught_before = _uncaught_exception()
        return True

    def trains_here(self) -> None:
        """The first update of the job: this thread trains, even where another one began."""
        if not self.tracker.num_total and os.getpid() == self._pid:
            self._thread = threading.get_ident()

    def is_own(self) -> bool:
        """Whether this is the thread that trains, and not a forked worker or one that serves."""
        is_own = os.getpid() == self._pid and threading.get_ident() == self._thread
        return is_own and not self._is_over

    def is_over(self) -> bool:
        """Whether nothing is recorded any more, or this is a forked worker."""
        return self._is_over or os.getpid() != self._pid

    def is_here(self) -> bool:
        """Whether this thread is recorded right now."""
        return self.has_begun and self.is_own()

    def ending(self, shutdown: Callable[P, R]) -> Callable[P, R]:
        """``hvd.shutdown`` with the end of the recording in front of it."""

        @functools.wraps(shutdown)
        def end_and_shut_down(*args: P.args, **kwargs: P.kwargs) -> R:
            self.end()
            return shutdown(*args, **kwargs)

        return end_and_shut_down

    def end(self) -> None:
        """Complete the recording; a rank that failed does not wait for the others."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        if self.has_begun:
            has_failed = self.own_exception() is not None
            self.guarded(lambda: self.tracker.end(has_failed=has_failed))
            self.guarded(_hooks.abandon if has_failed else collect.stop)

    def own_exception(self) -> BaseException | None:
        """The exception that has ended the script; None where none has."""
        error = _uncaught_exception()
        if isinstance(error, BaseException) and error is not self._uncaught_before:
            return error
        return None

    def guarded(self, act: Callable[[], object]) -> None:
        """Call a function of the recorder; its exception ends the recording, not the training."""
        try:
            act()
        except Exception as error:
            self.fails(error)

    def fails(self, error: Exception) -> None:
        """End the recording after a failure of the recorder."""
        if _hooks.is_active():
            _hooks.give_up(error)
        else:
            print_problem(f"nothing is recorded: {type(error).__name__}: {error}")


def _uncaught_exception() -> object:
    # Python sets it before it calls `sys.excepthook`, which the script may have replaced.
    return getattr(sys, "last_value", None)


def govern_script() -> None:
    """Let the settings of `hvdprof run` hold for a script that begins the recording itself."""
    try:
        if _hooks.PROCESS.begin_for_script is not None and _hooks.PROCESS.begin_for_script():
            return
        ProcessRecording(StepTracker(AutoSettings.from_environment())).begin()
    except Exception as error:
        print_problem(f"the settings of hvdprof run do not hold: {type(error).__name__}: {error}")
