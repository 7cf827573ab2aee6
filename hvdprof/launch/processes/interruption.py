"""Signals that ask for an end as one exception, raised once: cleaning up is not cut short."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from hvdprof.errors import InterruptedRunError

_HANDLED_BYTES = 64


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
