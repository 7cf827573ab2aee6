"""What every automatic recording of a process has in common, whatever trains in it."""

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from hvdprof import collect
from hvdprof.collect.auto.auto_settings import AutoSettings
from hvdprof.collect.auto.step_tracker import StepTracker
from hvdprof.collect.diagnostics import print_problem


class ProcessRecording:
    """The recording of one process and of the thread of it that trains.

    Args:
        tracker: Its steps.
    """

    def __init__(self, tracker: StepTracker) -> None:
        self.tracker = tracker
        self.has_begun = False
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._is_over = False
        self._told_before: object = None

    def begin(self) -> bool:
        """Begin on this thread; false where it has begun, is over, or the script records itself."""
        if self.has_begun or self._is_over or collect.is_active():
            return False
        self.has_begun = True
        collect.govern_steps(self.tracker.marked_step)
        self._thread = threading.get_ident()
        # After hvd.init(), which registers its own end: ours comes first.
        atexit.register(self.end)
        self._told_before = _last_told()
        return True

    def trains_here(self) -> None:
        """The first update of the job: this is the thread that trains, whichever began."""
        if not self.tracker.num_total and os.getpid() == self._pid:
            self._thread = threading.get_ident()

    def is_own(self) -> bool:
        """Whether this is the thread that trains, and not a forked worker or one that serves."""
        is_own = os.getpid() == self._pid and threading.get_ident() == self._thread
        return is_own and not self._is_over

    def is_here(self) -> bool:
        """Whether this thread is recorded right now."""
        return self.has_begun and self.is_own()

    def ending(self, shutdown: Callable[..., Any]) -> Callable[..., Any]:
        """``hvd.shutdown`` with the end of the recording in front of it."""

        @functools.wraps(shutdown)
        def end_and_shut_down(*args: Any, **kwargs: Any) -> Any:
            self.end()
            return shutdown(*args, **kwargs)

        return end_and_shut_down

    def end(self) -> None:
        """Complete the recording; a rank that failed does not wait for the others."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        if self.has_begun:
            self.guarded(self.tracker.end)
            has_failed = _last_told() is not self._told_before
            self.guarded(collect.abandon if has_failed else collect.stop)

    def guarded(self, act: Callable[[], Any]) -> None:
        """Call what records; what it raises ends the recording and not the training."""
        try:
            act()
        except Exception as error:
            self.fails(error)

    def fails(self, error: Exception) -> None:
        """End the recording after a failure of what records."""
        if collect.is_active():
            collect.give_up(error)
        else:
            print_problem(f"nothing is recorded: {type(error).__name__}: {error}")


def _last_told() -> object:
    # Set by Python before it calls `sys.excepthook`, whoever has put what there.
    return getattr(sys, "last_value", None)


def govern_script() -> None:
    """Let what `hvdprof run` asked for hold for a script that begins the recording itself."""
    try:
        ProcessRecording(StepTracker(AutoSettings.from_environment())).begin()
    except Exception as error:
        print_problem(f"the settings of hvdprof run do not hold: {type(error).__name__}: {error}")
