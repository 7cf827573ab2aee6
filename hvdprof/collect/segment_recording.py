"""The segments of a rank: their begin, their tensors and their end in the recorder file.

Tested by tests/collect/test_recorder.py.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hvdprof.collect.process_time import process_tree_time_ns
from hvdprof.collect.step_recording import StepRecording
from hvdprof.collect.steps.line_writer import LineWriter
from hvdprof.collect.steps.time_source import TimeSource
from hvdprof.rundir.recorder_format import SegmentEndLine, SegmentLine, Tensor

S = TypeVar("S", SegmentLine, SegmentEndLine)

IMPLICIT_SEGMENT = "main"


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
