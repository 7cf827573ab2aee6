"""Where a rank is in the loop that trains: inside it, or behind its end, after how many steps.

Ranks with unequal numbers of batches hang there: one has ended its loop, the others wait for it in
a step of theirs. By their stacks and phases alone, the rank might as well evaluate between epochs.

Tested by tests/collect/auto/test_loop_progress.py.
"""

import sys
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType

from hvdprof.collect.auto.training_loop import Fetches
from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP


class LoopProgress:
    """Counts the epochs of a rank, by the iterators that its training exhausts."""

    def __init__(self) -> None:
        self.num_epochs = 0
        self._fetched_from: weakref.ref[object] | None = None
        self._trained_from: weakref.ref[object] | None = None

    def fetched(self, iterator: object) -> None:
        """A batch has come from an iterator of a data loader."""
        self._fetched_from = weakref.ref(iterator)

    def updates(self) -> None:
        """An update begins: the iterator of the last batch is that of the training."""
        self._trained_from = self._fetched_from

    def exhausted(self, iterator: object) -> None:
        """An iterator has no more batches."""
        if self._trained_from is not None and self._trained_from() is iterator:
            self.num_epochs += 1
            self._fetched_from = self._trained_from = None


def loop_place(loop: Fetches | None, thread: int, error: BaseException | None) -> str:
    """``IN_LOOP`` or ``LEFT_LOOP``; empty where the loop is unknown. For any thread.

    Args:
        loop: The loop that trains.
        thread: The thread that trains.
        error: The exception that ended the script; None where none did.
    """
    if loop is None:
        return ""
    if error is not None:
        places = _places_of_error(error.__traceback__)
    else:
        places = _places_of(sys._current_frames().get(thread))
    is_inside = any(
        code is loop.code and loop.first <= offset <= loop.last for code, offset in places
    )
    return IN_LOOP if is_inside else LEFT_LOOP


def _places_of(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _places_of_error(traceback: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next
