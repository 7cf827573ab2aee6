"""What a rank does where a watcher names it: it samples itself faster for a while.

The sampling thread looks for requests. A thread of its own answers: it writes the stacks of all
threads, samples the one that trains, and writes the stacks again. Each event is answered once.
Data loader workers that are sampled do the same.
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.lines.line_window import LineFile, LineWindow, sampling_line
from hvdprof.collect.lines.sampler import LineSampler, Places, SampleTaker
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.collect.standing import Moment
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.layout import SAMPLES, STACKS, TRACE, answer_file, request_file
from hvdprof.rundir.rank_requests import Request, read_requests
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, OUTSIDE_PHASES, WORKER_PROCESS
from hvdprof.rundir.written_file import open_run_file

HZ, LENGTH_S = 100.0, 10.0
MOST_ANSWERS = 16
MOST_BYTES, MOST_STACK_BYTES = 60_000, 60_000
"""Of the samples, and of each of the two sets of stacks."""

_LOOK_NS = 2_000_000_000
_SAMPLES, _STEPS = "samples", "profiled steps"


class EventSamples(SampleTaker):
    """Takes the samples of an answer; stacks are written before the first and after the last."""

    def __init__(
        self, file: LineFile, stacks: Path, moment: Callable[[], Moment], now_ns: int
    ) -> None:
        self._file, self._stacks, self._moment = file, stacks, moment
        self._now = moment()
        self._window = LineWindow(self._now.segment, -1, start_ns=now_ns)
        self._write_stacks()

    def thread(self) -> int:
        """The thread that trains now."""
        self._now = self._moment()
        return self._now.thread

    def take(self, now_ns: int, place: int, gap_ns: int, late_ns: int) -> None:
        """Count a sample in the phase in which the thread is."""
        self._window.sample(self._now.phase or OUTSIDE_PHASES, place, gap_ns, late_ns)

    def finish(self, now_ns: int) -> None:
        """Write all.

        Raises:
            OSError: A file took no more.
        """
        self._write_stacks()
        self._window.end_ns = now_ns
        self._file.write(self._window, now_ns)
        self._file.close()

    def _write_stacks(self) -> None:
        with open_run_file(self._stacks) as file:
            file.write(f"Stacks at {time.time():.3f} s since 1970, step {self._now.step}\n")
            file.flush()
            begin = os.fstat(file.fileno()).st_size
            faulthandler.dump_traceback(file, all_threads=True)
            if os.fstat(file.fileno()).st_size > begin + MOST_STACK_BYTES:
                os.ftruncate(file.fileno(), begin + MOST_STACK_BYTES)


class EventAnswers:
    """Looks for requests to a rank, and answers one after the other.

    Args:
        folder: The folder of the recorder files.
        rank: The rank.
        moment: Says where the training is now.
        profile: Called with a file and a step, from which on torch.profiler is to record; None
            where no steps are trained.
        report: Called with a message where an answer fails.
        clock: Nanoseconds of the recorder.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        moment: Callable[[], Moment],
        profile: Callable[[Path, int], None] | None,
        report: Callable[[str], None],
        clock: Callable[[], int],
    ) -> None:
        self._folder, self._rank, self._moment = folder, rank, moment
        self._profile, self._report, self._clock = profile, report, clock
        self._path = request_file(folder, rank)
        self._changed = 0
        self._next_look_ns = 0
        self._waiting: list[Request] = []
        self._answered: set[tuple[int, str]] = set()
        self._sampler: LineSampler | None = None
        self._worker: int | None = None

    def look(self) -> None:
        """Begin to answer what is asked; for the sampling thread, raises nothing."""
        now_ns = self._clock()
        if now_ns < self._next_look_ns or len(self._answered) >= MOST_ANSWERS:
            return
        self._next_look_ns = now_ns + _LOOK_NS
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._changed:
                self._changed = changed
                self._waiting = read_requests(self._path)
        except OSError:
            # Nothing is asked, or the folder cannot be read just now.
            return
        for request in self._waiting:
            # Of two watchers, one alone may want profiled steps.
            if request.samples and (self._sampler is None or not self._sampler.is_running):
                self._once(request, _SAMPLES, self._sample)
            if request.first_step >= 0 and self._profile is not None:
                self._once(request, _STEPS, self._profile_steps)

    def close(self) -> None:
        """End an answer and write what there is."""
        if self._sampler is not None:
            self._sampler.close()

    def _once(self, request: Request, kind: str, answer: Callable[[Request], None]) -> None:
        if (request.event, kind) in self._answered:
            return
        self._answered.add((request.event, kind))
        try:
            answer(request)
        except Exception as error:
            # Answered by an earlier process of this rank, or the disk is full.
            self._report(f"no {kind} for event {request.event}: {error}")

    def _answer(self, request: Request, ending: str) -> Path:
        return answer_file(self._folder, request.event, self._rank, ending, worker=self._worker)

    def _profile_steps(self, request: Request) -> None:
        if self._profile is not None and not self._answer(request, TRACE).exists():
            self._profile(self._answer(request, TRACE), request.first_step)

    def _sample(self, request: Request) -> None:
        now_ns, is_worker = self._clock(), self._worker is not None
        if is_worker and self._answer(request, SAMPLES).exists():
            # A worker before this one has had its number.
            return
        writer = LineWriter(self._answer(request, SAMPLES))
        process = WORKER_PROCESS if is_worker else MAIN_PROCESS
        writer.write(sampling_line(self._rank, process, HZ, now_ns))
        places = Places(UserCode(sys.modules.get("__main__")))
        file = LineFile(writer, places.names, now_ns, MOST_BYTES, 0)
        taker = EventSamples(file, self._answer(request, STACKS), self._moment, now_ns)
        self._sampler = LineSampler(places, taker, HZ, self._report, self._clock, LENGTH_S)
        self._sampler.start()


class WorkerAnswers(EventAnswers):
    """The same in a worker of a rank, which trains no steps."""

    def __init__(self, folder: Path, rank: int, worker: int) -> None:
        moment = Moment("", -1, "", threading.main_thread().ident or 0)
        super().__init__(folder, rank, lambda: moment, None, print_problem, time.monotonic_ns)
        self._worker = worker
        with contextlib.suppress(OSError):
            facts = self._path.stat()
            # What was asked of workers before this one.
            self._changed = facts.st_mtime_ns * (time.time() - facts.st_mtime > LENGTH_S)
