"""The thread that looks where another thread is, at random moments.

The gaps between looks are exponential, so that they never follow the rhythm of the steps. A call
that holds the interpreter's lock delays a look; the delays are counted. A failure in here ends the
sampling, with a note, and nothing else.

Tested in ``tests/collect/lines/test_sampler.py``.
"""

import atexit
import contextlib
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping

from hvdprof.collect.diagnostics import print_problem
from hvdprof.collect.lines.places import Places
from hvdprof.rundir.recording.line_format import LINES_HZ, MOST_HZ, USUAL_HZ

LONGEST_GAPS = 10
"""The longest gap, in mean gaps."""

LONGEST_END_S = 2.0
"""Until then the thread has to write its rest, where the recording ends."""


def asked_hz(environment: Mapping[str, str] = os.environ) -> float:
    """Samples per second that ``HVDPROF_LINES`` asks for; ``USUAL_HZ`` without it.

    Raises:
        ValueError: It is no number.
    """
    hz = float(environment.get(LINES_HZ) or USUAL_HZ)
    if not 0 <= hz <= MOST_HZ:
        raise ValueError(f"{LINES_HZ}={hz:g} is not from 0 to {MOST_HZ:g}")
    return hz


class SampleTaker:
    """What takes the samples; all of it is called by the sampling thread."""

    def thread(self) -> int:
        """The number of the thread to be sampled; asked just before each sample."""
        return threading.main_thread().ident or 0

    def take(self, now_ns: int, place: int, gap_ns: int, late_ns: int) -> None:
        """Take a sample: its time, the number of its place, the gap before it and its delay."""

    def finish(self, now_ns: int) -> None:
        """Write what is left; no sample follows."""


class LineSampler:
    """Samples one thread, from ``start`` to ``close``.

    Args:
        places: Names what it does.
        taker: Takes the samples.
        hz: Looks per second.
        report: Called with a message where the sampling ends by a failure.
        clock: Nanoseconds.
        length_s: When it ends by itself.
    """

    def __init__(
        self,
        places: Places,
        taker: SampleTaker,
        hz: float,
        report: Callable[[str], None] = print_problem,
        clock: Callable[[], int] = time.monotonic_ns,
        length_s: float = math.inf,
    ) -> None:
        self._places = places
        self._taker = taker
        self._hz = hz
        self._report = report
        self._clock = clock
        self._length_s = length_s
        # To be had once the sampling is to end: an event would make such a lock at each wait.
        self._over = threading.Lock()
        self._over.acquire()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="hvdprof lines", daemon=True)

    def start(self) -> None:
        """Begin to sample; says so where no thread can be started."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._report(f"no lines are sampled: {error}")
            return
        # For a script that ends without stop().
        atexit.register(self.close)

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the sampling and wait until the rest is written; a second call does nothing."""
        # In a forked process there is no such thread, and its locks may be held for ever.
        if os.getpid() != self._pid:
            return
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                # It is had already where this was called before.
                self._over.release()
            self._thread.join(LONGEST_END_S)
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            self._sample()
            self._taker.finish(self._clock())
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        try:
            self._report(f"lines are no longer sampled: {type(error).__name__}: {error}")
        except Exception as second:
            # The disk is full, or the recording is over.
            print_problem(f"lines are no longer sampled: {second}")

    def _sample(self) -> None:
        # Of its own: the numbers of the script stay as they were.
        chance = random.Random()
        longest_s = LONGEST_GAPS / self._hz
        begin_ns = before_ns = self._clock()
        while before_ns - begin_ns < 1e9 * self._length_s:
            gap_s = min(chance.expovariate(self._hz), longest_s)
            due_ns = self._clock() + round(gap_s * 1e9)
            if self._over.acquire(timeout=gap_s):
                return
            now_ns = self._clock()
            thread = self._taker.thread()
            frame = sys._current_frames().get(thread)
            # It has ended, and this thread may have got its number.
            if frame is None or thread == threading.get_ident():
                continue
            place = self._places.at(frame)
            # Its local variables would live on.
            del frame
            self._taker.take(now_ns, place, now_ns - before_ns, max(now_ns - due_ns, 0))
            before_ns = now_ns
