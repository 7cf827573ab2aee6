"""The segments of a rank: begin, tensors, processor time and end of each in the recorder file.

Tested by tests/collect/test_recorder.py, the processor time by tests/collect/test_process_time.py.
"""

import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hvdprof.collect.step_recording import StepRecording
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.time_source import TimeSource
from hvdprof.rundir.recording.recorder_format import SegmentEndLine, SegmentLine, Tensor

S = TypeVar("S", SegmentLine, SegmentEndLine)

IMPLICIT_SEGMENT = "main"

_PROC = Path("/proc")
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime: proc_pid_stat(5) counts from 14


class SegmentRecording:
    """Opens and closes segments, one at a time; steps outside of them belong to an implicit one.

    ``current`` is the open segment, None between segments; ``is_declared`` says that its first
    step has begun.

    Args:
        file: Takes the lines.
        steps: The steps of the segments.
        source: Where marks of steps come from.
        clock: The monotonic clock, ns.
    """

    def __init__(
        self,
        file: LineWriter,
        steps: StepRecording,
        source: TimeSource,
        clock: Callable[[], int],
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
