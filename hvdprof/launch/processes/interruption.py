"""What ends a launch: signals, raised once as an exception, or the loss of its launching side."""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NoReturn

from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError
from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.plan.workload import INSTALLED_ALONE, python_program

_HANDLED_BYTES = 64

_DISMISSED = b".\n"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within the block the first Ctrl-C, SIGTERM or SIGHUP raises; further ones are ignored.

    A SIGHUP that is ignored, as behind ``nohup``, stays so. The former handlers are back
    afterwards. Signals reach the main thread alone: on another one, as some notebooks have, nothing
    is changed.

    Raises:
        InterruptedRunError: One of the signals came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    signals = _signals()

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"Ended by {signal.Signals(number).name}.")

    former = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interruptible_within_others() -> Iterator[None]:
    """Around a call that puts handlers of its own in place and leaves them there.

    Raises:
        InterruptedRunError: One of the signals came, even if the call swallowed it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in _signals()}
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    # Python writes the numbers of signals there, whichever handler runs.
    former_fd = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        for number in former:
            # The one exception by which Ray lets itself be interrupted; others it swallows.
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        signal.set_wakeup_fd(former_fd)
        for number, handler in former.items():
            signal.signal(number, handler)
        received = [number for number in _received(reading) if number in former]
        os.close(reading)
        os.close(writing)
        if received:
            raise InterruptedRunError(f"Ended by {signal.Signals(received[0]).name}.")


def to_its_end(act: Callable[[], None]) -> None:
    """Do what a signal must not cut short: it starts again where a signal comes within.

    Raises:
        InterruptedRunError: A signal came; the action is done, and further signals are ignored.
    """
    try:
        act()
    except InterruptedRunError:
        act()
        raise


def _received(reading: int) -> list[int]:
    try:
        return list(os.read(reading, _HANDLED_BYTES))
    except BlockingIOError:
        return []


def _signals() -> tuple[signal.Signals, ...]:
    """Those that ask this process to end; SIGHUP comes from a terminal that is gone."""
    asked = (signal.SIGINT, signal.SIGTERM)
    ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return asked if ignores_hangup else (*asked, signal.SIGHUP)


class OrphanGuard:
    """Runs commands if this process dies before it dismisses the guard.

    Args:
        commands: Argument lists; they run at the same time.

    Raises:
        EnvironmentNotReadyError: There is no shell.
    """

    def __init__(self, *commands: Sequence[str]) -> None:
        at_once = "".join(f"{shlex.join(command)} & " for command in commands)
        own = {name: value for name, value in os.environ.items() if name != PASS_MARK}
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", f"read -r dismissed || {{ {at_once}wait; }}"],
                env={**own, **INSTALLED_ALONE},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A signal to the group of the launching side, such as Ctrl-C, is not for the guard.
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentNotReadyError(f"Could not start /bin/sh: {error.strerror}.") from error

    @classmethod
    def of_mark(cls, mark: str) -> "OrphanGuard":
        """A guard that ends every process on this host whose environment carries the mark."""
        return cls(python_program("hvdprof.launch.processes.marked_processes", mark))

    def dismiss(self) -> None:
        """The processes are gone, so the guard ends without running its commands."""
        self._shell.communicate(_DISMISSED)
