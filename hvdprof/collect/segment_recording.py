"""The segments of a rank in its recorder file, and Horovod's timeline as they switch it.

Tested by tests/collect/test_recorder.py, the processor time by tests/collect/test_process_time.py.
"""

import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hvdprof.collect.clock import job_group
from hvdprof.collect.step_recording import StepRecording
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.time_source import TimeSource
from hvdprof.rundir.recording.recorder_format import SegmentEndLine, SegmentLine, Tensor
from hvdprof.rundir.written_file import make_run_folders

S = TypeVar("S", SegmentLine, SegmentEndLine)

IMPLICIT_SEGMENT = "main"

_PROC = Path("/proc")
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime: proc_pid_stat(5) counts from 14


class SegmentRecording:
    """Opens and closes segments, one at a time; steps outside of them belong to an implicit one.

    ``current`` is the open segment, None between segments; ``is_declared`` says that its first
    step has begun.
    """

    def __init__(
        self, file: LineWriter, steps: StepRecording, source: TimeSource, clock: Callable[[], int]
    ) -> None:
        self.current: str | None = None
        self.is_declared = False
        self._file = file
        self._steps = steps
        self._source = source
        self._clock = clock
        self._begin_ns = 0
        self._declared_bytes: list[int] = []

    def begin(self, segment_id: str) -> None:
        """Open a segment; the implicit one ends with it.

        Raises:
            OSError: The recorder file took no more.
            RuntimeError: Another segment is open.
        """
        if self.current == IMPLICIT_SEGMENT:
            self.end(True)
        if self.current is not None:
            raise RuntimeError(f"segment {segment_id!r} begins within segment {self.current!r}")
        self._source.anchor()
        self.current = segment_id
        self._begin_ns = self._clock()
        self._steps.number = 0

    def declare(self) -> str:
        """Write the ``segment`` line before its first step; the id of the segment.

        As late as that, since the script watches its model after the segment has begun.

        Raises:
            OSError: The recorder file took no more.
        """
        if self.current is None:
            self.begin(IMPLICIT_SEGMENT)
        segment_id = self.current or IMPLICIT_SEGMENT
        if not self.is_declared:
            self.is_declared = True
            tensors = self._steps.watches.declared()
            line: SegmentLine = {
                "kind": "segment",
                "id": segment_id,
                "monotonic_ns": self._begin_ns,
                "tensors": [] if self._steps.is_light else tensors,
            }
            if self._steps.is_light:
                line["totals"] = {
                    "num_tensors": len(tensors),
                    "size_bytes": sum(tensor["size_bytes"] for tensor in tensors),
                    "sent_bytes": sum(_sent_bytes(tensors)),
                }
            self._file.write(_with_process_time(line))
            self._declared_bytes = _sent_bytes(tensors)
        return segment_id

    def end(self, ran_to_its_end: bool) -> None:
        """Close the open segment; after an exception it has no end in the file.

        Raises:
            OSError: The recorder file took no more.
        """
        if self.current is None:
            return
        if ran_to_its_end:
            self.declare()
        sent_bytes = _sent_bytes(self._steps.watches.declared())
        self._steps.watches.detach_segment()
        self._steps.write_rest()
        if ran_to_its_end:
            line: SegmentEndLine = {
                "kind": "segment_end",
                "id": self.current,
                "monotonic_ns": self._clock(),
            }
            # Known only after the first step, where the script compresses by means of its own.
            declared = self._declared_bytes
            if sent_bytes != declared and len(sent_bytes) == len(declared):
                is_light = self._steps.is_light
                line["sent_bytes"] = [sum(sent_bytes)] if is_light else sent_bytes
            self._file.write(_with_process_time(line))
        self.current = None
        self.is_declared = False


def _with_process_time(line: S) -> S:
    time_ns = process_tree_time_ns()
    if time_ns is not None:
        line["process_time_ns"] = time_ns
    return line


def _sent_bytes(tensors: Sequence[Tensor]) -> list[int]:
    return [tensor["sent_bytes"] for tensor in tensors]


def process_tree_time_ns() -> int | None:
    """Processor time so far of this process and of all below it, ended or not, in ns.

    None where the system does not list children. Those that have ended count once they have been
    waited for.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_ns = time.process_time_ns() + round((ended.ru_utime + ended.ru_stime) * 1e9)
    ticks = 0
    left = _children(os.getpid())
    if left is None:
        return None
    while left:
        process_id = left.pop()
        # It may just have ended.
        ticks += _ticks(process_id)
        left += _children(process_id) or []
    return own_ns + ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _children(process_id: int) -> list[int] | None:
    """The children of all threads of a process; None where it has ended, or they are unknown."""
    children: list[int] | None = None
    try:
        threads = list((_PROC / str(process_id) / "task").iterdir())
    except OSError:
        return None
    for thread in threads:
        try:
            listed = (thread / "children").read_text()
        except OSError:
            # The thread has ended, or the kernel has no such file.
            continue
        children = [*(children or []), *map(int, listed.split())]
    return children


def _ticks(process_id: int) -> int:
    try:
        stat = (_PROC / str(process_id) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    # The name of the program, in parentheses, can hold spaces.
    return sum(map(int, stat.rpartition(")")[2].split()[_TIMES]))


class TimelineSwitch:
    """Switches Horovod's timeline of one rank.

    Args:
        file: Takes a line at each start and stop, unless it is closed.
        clock: The monotonic clock, ns.
        report: Called with a message after a failure.
    """

    def __init__(
        self, file: LineWriter, clock: Callable[[], int], report: Callable[[str], None]
    ) -> None:
        self._file = file
        self._clock = clock
        self._report = report
        self._runs = False

    def start(self, path: Path) -> None:
        """Let Horovod write from here on; a failure is reported.

        Raises:
            OSError: The recorder file took no more.
        """
        moment = self._moment()
        try:
            make_run_folders(path.parent)
            job_group.start_timeline(str(path))
        except (OSError, ValueError) as error:
            self._report(f"no timeline: {error}")
            return
        self._runs = True
        self._write("start", path, moment)

    def stop(self, path: Path) -> None:
        """End it where it runs, also after the recording: Horovod would write forever.

        Raises:
            OSError: Horovod is no longer initialised, or the recorder file took no more.
            ValueError: Horovod does not know of it.
        """
        if self._runs:
            self._runs = False
            job_group.stop_timeline()
            if not self._file.is_closed:
                self._write("stop", path, self._moment())

    def forget(self) -> None:
        """Horovod is gone, and with it the thread that writes: a call to stop would never end."""
        self._runs = False

    def _write(self, action: str, path: Path, moment: tuple[int, int]) -> None:
        relative = os.path.relpath(path, self._file.path.parent.parent)
        monotonic_ns, wall_ns = moment
        self._file.write(
            {
                "kind": "timeline",
                "action": action,
                "file": relative,
                "monotonic_ns": monotonic_ns,
                "wall_ns": wall_ns,
            }
        )

    def _moment(self) -> tuple[int, int]:
        return self._clock(), time.time_ns()
