"""Ctrl-C and SIGTERM as one exception, raised once, so that cleaning up is not cut short."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from hvdprof.errors import InterruptedRunError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within the block the first Ctrl-C or SIGTERM raises; further ones are ignored.

    Belongs on the main thread. The former handlers are back afterwards.

    Raises:
        InterruptedRunError: One of the signals came.
    """

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"Ended by {signal.Signals(number).name}.")

    former = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
