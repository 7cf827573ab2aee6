"""Samples the processes that a rank starts by ``multiprocessing``, such as its data loaders'.

Whether a worker is forked, spawned or made by a fork server, its main thread runs
``BaseProcess._bootstrap``, around which ``startup.hvdprof_import_hook`` samples; a process that a
script forks by itself is left alone. A worker may be killed, so it writes as it goes. Of each rank
at most ``MOST_WORKERS`` are sampled at a time: they run the same code.
"""

import os
import socket
import sys
import time
from pathlib import Path
from zlib import crc32

from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.host_facts import identity_from_environment
from hvdprof.collect.lines.event_answers import WorkerAnswers
from hvdprof.collect.lines.line_window import LineFile, LineWindow, sampling_line
from hvdprof.collect.lines.sampler import LineSampler, Places, SampleTaker, asked_hz
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.line_format import OUTSIDE_PHASES, WORKER_PROCESS
from hvdprof.rundir.recording.recorder_codec import from_bytes

MOST_WORKERS = 4
BYTES_AT_ONCE, BYTES_PER_HOUR = 10_000, 30_000
SHORTEST_NS, LONGEST_NS, SHARE_OF_TIME = 2_000_000_000, 30_000_000_000, 16
"""Length of a window: a share of the time so far, within bounds."""

RECORDER_DIR = "HVDPROF_RECORDER_DIR"


class ParentRank:
    """The rank that this process is, or was forked from, and its folder of recorder files."""

    def __init__(self) -> None:
        self.rank = -1
        self.folder: Path | None = None
        self.sampler: LineSampler | None = None

    def know(self, folder: Path, rank: int) -> None:
        """This process is the rank."""
        self.folder, self.rank = folder, rank

    def place(self) -> tuple[Path, int] | None:
        """Folder and rank, by the environment of a spawned worker; None where unknown."""
        if self.folder is not None:
            return self.folder, self.rank
        identity, folder = identity_from_environment(), os.environ.get(RECORDER_DIR)
        return (Path(folder), identity.rank) if identity and folder else None


PARENT = ParentRank()


class WorkerSamples(SampleTaker):
    """Sums up the samples of a worker, which knows no steps, over whiles."""

    def __init__(self, file: LineFile, now_ns: int, answers: WorkerAnswers | None = None) -> None:
        self._file, self._answers = file, answers
        self._begin_ns = now_ns
        self._window = LineWindow("", -1, start_ns=now_ns)

    def take(self, now_ns: int, place: int, gap_ns: int, late_ns: int) -> None:
        """Take a sample.

        Raises:
            OSError: The file took no more.
        """
        if self._answers is not None:
            self._answers.look()
        window = self._window
        window.sample(OUTSIDE_PHASES, place, gap_ns, late_ns)
        goal_ns = min(max((now_ns - self._begin_ns) // SHARE_OF_TIME, SHORTEST_NS), LONGEST_NS)
        if now_ns - window.start_ns >= goal_ns:
            self._write(now_ns)

    def finish(self, now_ns: int) -> None:
        """Write what is left.

        Raises:
            OSError: The file took no more.
        """
        if self._answers is not None:
            self._answers.close()
        if self._window.counts:
            self._write(now_ns)
        self._file.close()

    def _write(self, now_ns: int) -> None:
        window = self._window
        # It stays open where there is no room for it.
        window.spend(OUTSIDE_PHASES, now_ns - (window.end_ns or window.start_ns))
        window.end_ns = now_ns
        if self._file.write(window, now_ns):
            self._window = LineWindow("", -1, start_ns=now_ns)


def start_worker() -> None:
    """Sample this process as a worker of its rank; says so where that fails."""
    try:
        place, hz = PARENT.place(), asked_hz()
        if place is not None and hz:
            PARENT.sampler = _sampler(*place, hz)
    except Exception as error:
        print_problem(f"no lines of a worker are sampled: {type(error).__name__}: {error}")


def stop_worker() -> None:
    """End the sampling of this process as a worker: it ends, or it becomes a rank itself."""
    sampler, PARENT.sampler = PARENT.sampler, None
    if sampler is not None:
        sampler.close()


def _sampler(folder: Path, rank: int, hz: float) -> LineSampler | None:
    number = _free_number(folder, rank)
    if number is None:
        return None
    path = folder / PassPaths(folder.parent).lines_file(rank, worker=number).name
    writer, now_ns = LineWriter(path, is_new=False), time.monotonic_ns()
    places = Places(UserCode(sys.modules.get("__main__")))
    begin_ns = _begin_of(path) if writer.size_bytes else now_ns
    file = LineFile(writer, places.names, begin_ns, BYTES_AT_ONCE, BYTES_PER_HOUR)
    if not file.has_room(now_ns):
        return None
    writer.write(sampling_line(rank, WORKER_PROCESS, hz, now_ns))
    answers = WorkerAnswers(folder, rank, number)
    sampler = LineSampler(places, WorkerSamples(file, now_ns, answers), hz)
    sampler.start()
    return sampler


def _begin_of(path: Path) -> int:
    """When the first worker began the file, by the clock that all of them share."""
    with path.open("rb") as file:
        line = from_bytes(file.readline())
    return int(line["monotonic_ns"]) if line["kind"] == "sampling" else 0


_held: list[socket.socket] = []


def _free_number(folder: Path, rank: int) -> int | None:
    """The number of a file that no worker of the rank writes to; None where all are in use.

    A name of an abstract socket is one process's at a time, and free again however that ends.
    """
    for number in range(MOST_WORKERS):
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            own.bind(f"\0hvdprof-lines-{crc32(bytes(folder)):x}-{rank}-{number}")
        except OSError:
            own.close()
            continue
        _held.append(own)
        return number
    return None
