"""What a rank has recorded since the last look: whole lines, and their windows."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from hvdprof.collect.steps.step_marks import EVALUATION_PHASE
from hvdprof.collect.steps.step_sums import PHASE_PARTS, part_lengths
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.recording.line_format import WindowLine
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.recorder_format import HeaderLine, RecorderLine, StepLine
from hvdprof.rundir.regular_file import END_BYTES, continues, open_regular

_AT_ONCE = 1 << 23
"""Bytes; the rest follows with the next look."""

_LONGEST_LINE = 1 << 24

PARTS = (*PHASE_PARTS, "outside")
"""The parts of a rank's own time: phases without waits, and the rest of the step."""

_MOST = 1 << 62


class FileTail:
    """Follows a file that another process appends to, on a network file system too.

    A file that became shorter, or another one under its name, is read from its begin; a copy of
    the same file is read on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._inode = 0
        self._end = b""
        self.is_behind = False
        """Whether more was there than one look reads."""

    @property
    def is_torn(self) -> bool:
        """Whether the last line that was read has no end yet."""
        return bool(self._rest)

    def lines(self) -> list[bytes]:
        """New lines without their ends; none while the file cannot be read."""
        try:
            with open_regular(self._path) as stream:
                facts = os.fstat(stream.fileno())
                is_other = facts.st_size < self._offset or (
                    facts.st_ino != self._inode and not continues(stream, self._offset, self._end)
                )
                if is_other:
                    self._offset, self._rest, self._end = 0, b"", b""
                self._inode = facts.st_ino
                stream.seek(self._offset)
                added = stream.read(_AT_ONCE)
        except OSError:
            # Not there yet, or not over a network just now: the next look continues.
            self.is_behind = False
            return []
        self._offset += len(added)
        self._end = (self._end + added[-END_BYTES:])[-END_BYTES:]
        self.is_behind = self._offset < facts.st_size
        *whole, rest = (self._rest + added).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        return whole


@dataclass(slots=True)
class RankWindow:
    """Consecutive steps of a rank summed up, ns; ``own`` by ``PARTS``, None with unseen waits.

    ``warmup`` also says that some were profiled. ``evaluation_ns`` is the time from the begin of a
    step to the end of its evaluation.
    """

    segment: str
    first: int
    last: int
    num_steps: int
    samples: int
    length_ns: int
    own: list[int] | None
    wall_ns: int
    warmup: bool
    evaluates: bool
    evaluation_ns: int = 0

    def add(self, other: "RankWindow") -> None:
        """Append the window that follows."""
        self.last, self.wall_ns = other.last, other.wall_ns
        self.num_steps += other.num_steps
        self.samples += other.samples
        self.length_ns += other.length_ns
        self.warmup |= other.warmup
        self.evaluates |= other.evaluates
        self.evaluation_ns = max(self.evaluation_ns, other.evaluation_ns)
        if self.own is None or other.own is None:
            self.own = None
        else:
            self.own = [one + more for one, more in zip(self.own, other.own, strict=True)]


@dataclass(slots=True)
class RankFeed:
    """Follows the recorder file of a rank.

    ``size`` is the number of ranks by its header, ``num_damaged`` the lines that were skipped,
    ``wall_minus_monotonic_ns`` what makes a time of the rank one of its host's wall clock.
    """

    rank: int
    path: Path
    host: str = ""
    size: int = 0
    last_step: int = -1
    has_ended: bool = False
    num_damaged: int = 0
    wall_minus_monotonic_ns: int = 0
    _tail: FileTail = field(init=False)

    def __post_init__(self) -> None:
        self._tail = FileTail(self.path)

    @property
    def is_behind(self) -> bool:
        """Whether more is there than was read."""
        return self._tail.is_behind

    def windows(self) -> list[RankWindow]:
        """The windows that were added; each step of a full recording is one."""
        found: list[RankWindow] = []
        for text in self._tail.lines():
            if not text:
                continue
            try:
                self._take(from_bytes(text), found)
            except (*DAMAGE, RecursionError):
                self.num_damaged += 1
        if found:
            self.last_step = found[-1].last
        return found

    def _take(self, line: RecorderLine, found: list[RankWindow]) -> None:
        kind = line["kind"]
        if kind == "window":
            found.append(self._of_window(cast(WindowLine, line)))
        elif kind == "step":
            found.append(self._of_step(cast(StepLine, line)))
        elif kind == "header":
            header = cast(HeaderLine, line)
            clocks = _whole(header["wall_ns"]), _whole(header["monotonic_ns"])
            self.wall_minus_monotonic_ns = clocks[0] - clocks[1]
            self.size = min(_positive(header["size"]), 1 << 24)
            self.host = printable(str(header["host"]["hostname"]))
            self.has_ended = False
        elif kind == "end":
            self.has_ended = True

    def _of_step(self, line: StepLine) -> RankWindow:
        length, blocked = _positive(line["dur_ns"]), line["blocked"]
        own = None
        passes = [piece for piece in line["phases"] if piece[0] == EVALUATION_PHASE]
        if blocked is not None:
            lengths = part_lengths(line)
            waited = sum(int(span[1]) for span in blocked)
            own = _own(length, waited, {part: lengths.get(part, 0) for part in PHASE_PARTS})
        return RankWindow(
            segment=str(line["segment"]),
            first=_step(line["step"]),
            last=_step(line["step"]),
            num_steps=1,
            samples=_whole(line["samples"]),
            length_ns=length,
            own=own,
            wall_ns=_whole(line["start_ns"]) + length + self.wall_minus_monotonic_ns,
            warmup=bool(line["warmup"] or line.get("profiled")),
            evaluates=bool(line.get("evaluation")),
            evaluation_ns=max((int(start + span) for _, start, span in passes), default=0),
        )

    def _of_window(self, line: WindowLine) -> RankWindow:
        length, parts = _positive(line["lengths"][0]), line["parts"]
        first = _step(line["step"])
        last = first + _positive(line["last_step"] - first + 1) - 1
        own = None
        if line["waits"] is not None:
            waited = int(parts["blocked"][0]) if "blocked" in parts else 0
            own = _own(length, waited, {name: int(spread[0]) for name, spread in parts.items()})
        return RankWindow(
            segment=str(line["segment"]),
            first=first,
            last=last,
            num_steps=_positive(line["num_steps"]),
            samples=_whole(line["samples"]),
            length_ns=length,
            own=own,
            # The wall clock of a host may jump: events would end before they begin.
            wall_ns=_whole(line["end_ns"]) + self.wall_minus_monotonic_ns,
            warmup=bool(line["warmup"] or line.get("profiled")),
            evaluates="evaluation_ns" in line,
            evaluation_ns=_whole(line.get("evaluation_ns", 0)),
        )


def _own(length: int, waited: int, parts: dict[str, int]) -> list[int]:
    known = [_whole(parts.get(part, 0)) for part in PHASE_PARTS]
    return [*known, length - _whole(waited) - sum(known)]


def _whole(value: object) -> int:
    number = int(cast(int, value))
    if abs(number) >= _MOST:
        # It would not fit into a float, in which means are taken.
        raise ValueError("a number has more than 64 bits")
    return number


def _step(value: object) -> int:
    return _positive(cast(int, value) + 1) - 1


def _positive(value: object) -> int:
    number = int(cast(int, value))
    if not 0 < number < _MOST:
        raise ValueError("a window takes time and steps")
    return number
