"""The thread that looks where another thread is, at random moments.

The gaps between looks are exponential, so that they never follow the rhythm of the steps. A call
that holds the interpreter's lock delays a look; the delays are counted. A failure in here ends the
sampling, with a note, and nothing else.
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
from types import CodeType, FrameType

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.lines.user_code import Owner, UserCode, shown_file, shown_function
from hvdprof.rundir.recording.line_format import (
    COLLATE,
    FETCH,
    LINES_HZ,
    MOST_HZ,
    OTHER_PLACE,
    PIN,
    RECEIVE,
    USUAL_HZ,
    WAIT,
)

MOST_CODES, MOST_PLACES = 8192, 8192
"""What is kept; a script may execute new code at every step."""

PlaceName = tuple[str, int, str, str, str]
"""File, line, function, the innermost function where that is not the user's, stage of input."""

_STAGES = {
    "torch/utils/data/_utils/fetch.py _MapDatasetFetcher.fetch": FETCH,
    "torch/utils/data/_utils/fetch.py _IterableDatasetFetcher.fetch": FETCH,
    "torch/utils/data/_utils/pin_memory.py pin_memory": PIN,
    "torch/utils/data/_utils/worker.py _worker_loop": WAIT,
    "torch/utils/data/dataloader.py _MultiProcessingDataLoaderIter._get_data": WAIT,
    "torch/multiprocessing/reductions.py rebuild_storage_fd": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_storage_filename": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_tensor": RECEIVE,
}
"""Stages of torch's DataLoader by function; the innermost one counts."""

LONGEST_GAPS = 10
"""The longest gap, in mean gaps."""

LONGEST_END_S = 2.0
"""Until then the thread has to write its rest, where the recording ends."""


class Places:
    """Numbers of places; each code object that is counted is kept, so that its id stays its own."""

    def __init__(self, user_code: UserCode) -> None:
        self._user_code = user_code
        self._codes: dict[int, tuple[CodeType, Owner, str]] = {}
        self._numbers: dict[
            tuple[int, int, int, str], tuple[int, CodeType | None, CodeType | None]
        ] = {}
        self._by_name: dict[PlaceName, int] = {}
        self.names: list[PlaceName] = [("", 0, "", "other", "")]

    def at(self, frame: FrameType | None) -> int:
        """The number of the place of a thread: ``names`` has what it is.

        It is the innermost line of the user's, with the innermost function of a library that it
        has called; where no line is the user's, that function alone. The stage is that of the
        innermost frame of a DataLoader, which may have called the user's line.
        """
        leaf: CodeType | None = None
        own: FrameType | None = None
        stage = ""
        while frame is not None and not (own and stage):
            code = frame.f_code
            known = self._codes.get(id(code))
            _, owner, here = self._see(frame) if known is None else known
            if owner is Owner.BEGIN:
                break
            if own is None and owner is Owner.USER:
                own = frame
            elif own is None and leaf is None and owner is Owner.LIBRARY:
                leaf = code
            if here and not stage:
                # It ends with `return self.collate_fn(data)`.
                last = max(line for _, _, line in code.co_lines() if line)
                stage = COLLATE if here == FETCH and frame.f_lineno == last else here
            frame = frame.f_back
        return self._number(own, leaf, stage)

    def _see(self, frame: FrameType) -> tuple[CodeType, Owner, str]:
        if len(self._codes) >= MOST_CODES:
            self._codes.clear()
            self._numbers.clear()
        code = frame.f_code
        owner = self._user_code.owner(code, frame.f_globals)
        stage = _STAGES.get(shown_function(code), "") if owner is Owner.LIBRARY else ""
        seen = self._codes[id(code)] = code, owner, stage
        return seen

    def _number(self, frame: FrameType | None, leaf: CodeType | None, stage: str) -> int:
        code = None if frame is None else frame.f_code
        # The line itself would have to be looked for in the table of the code.
        key = id(code), -1 if frame is None else frame.f_lasti, id(leaf), stage
        known = self._numbers.get(key)
        if known is None:
            if len(self._numbers) >= MOST_PLACES:
                self._numbers.clear()
            line = 0 if frame is None else frame.f_lineno or frame.f_code.co_firstlineno
            known = self._numbers[key] = self._named(code, line, leaf, stage), code, leaf
        return known[0]

    def _named(self, code: CodeType | None, line: int, leaf: CodeType | None, stage: str) -> int:
        inner = "" if leaf is None else shown_function(leaf)
        name = ("", 0, "", inner, stage)
        if code is not None:
            name = (shown_file(code.co_filename), line, code.co_qualname, inner, stage)
        number = self._by_name.get(name)
        if number is None:
            if len(self.names) >= MOST_PLACES:
                return OTHER_PLACE
            number = self._by_name[name] = len(self.names)
            self.names.append(name)
        return number


def user_line(frame: FrameType | None, user_code: UserCode) -> tuple[str, int]:
    """File and number of the innermost line of the user's; empty and 0 without one."""
    while frame is not None:
        if user_code.owner(frame.f_code, frame.f_globals) is Owner.USER:
            return shown_file(frame.f_code.co_filename), frame.f_lineno or 0
        frame = frame.f_back
    return "", 0


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
