"""Begins and ends to slices, in plain Python: a stack per pid, in file order."""

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.syntax.fields import BEGIN, END, MARK, TICK, Event
from hvdprof.ingest.timeline.syntax.parsed_timeline import (
    DEEPEST,
    OPEN,
    ORPHAN,
    Marks,
    Slices,
    Ticks,
)
from hvdprof.model.arrays import Int64s

NEGOTIATE = "NEGOTIATE_"

_NAME = rb'"name": "([^"\\\x80-\xff]*)", '
_TIME = rb'"ts": (0|[1-9]\d{0,17})'
_PID = rb', "pid": (0|[1-9]\d{0,17})'
# Where none else fits, the last one does: a match never lies further on.
_PLAIN = re.compile(
    rb'[,\[\] \t\r\n]*(?:\{"ph": "(?:B", ' + _NAME + _TIME + _PID + rb"\}"
    rb'|E", ' + _TIME + _PID + rb'(?:\}|, "args": (\{[^{}\x80-\xff]*\})\})'
    rb'|i", ' + _NAME + _TIME + rb', "s": "g"\}'
    rb'|X", "name": "(\d{1,9})", ' + _TIME + _PID + rb', "dur": 0\})|(.))',
    re.DOTALL,
)
_B, _E, _E_WITH_ARGS, _I, _X = 3, 5, 6, 8, 11
"""The last group of each kind of record."""


class Pairing(Protocol):
    """What takes the timed records of a file, one after the other, and gives columns."""

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        """Take the records from ``start`` on as far as they can be read quickly.

        Returns:
            The place that comes next, and the next free number of a record.
        """

    def put(self, event: Event, pid: int, order: int, text: str) -> None:
        """Take one record: ``pid`` is the code of its pid, ``order`` its number.

        ``text`` is how it stands in the file, so that a pairing can know it again.
        """

    def rename(self, number: int, code: int) -> None:
        """From now on a pid of this number has this code."""

    def name(self, code: int, tensor: str) -> None:
        """From now on the tensor of this code of a pid has this name."""

    def counts(self) -> dict[str, int]:
        """Number of records taken, by kind."""

    def finished(self) -> tuple[Slices, Ticks, Marks, tuple[str, ...], tuple[str, ...]]:
        """The columns, the names and the args."""


class PlainPairing:
    """The pairing without compiled code."""

    def __init__(self) -> None:
        self._slices: list[list[int]] = []
        self._ticks: list[tuple[int, int, int, int]] = []
        self._marks: list[tuple[int, int, int]] = []
        self._stacks: dict[int, list[list[int]]] = {}
        self._names: dict[str, int] = {}
        self._args: dict[str, int] = {}
        self._pids: dict[int, int] = {}
        self._plain_args: dict[bytes, int] = {}
        self._counts = dict.fromkeys("BEXi", 0)

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        """Take records of known pids that stand as Horovod writes them."""
        text, place, pids = chunks.data.data[: chunks.end], start, self._pids
        for found in _PLAIN.finditer(text, start):
            kind = found.lastindex
            if kind == _B and (pid := pids.get(int(found[3]))) is not None:
                self._begin(found[1].decode(), int(found[2]), pid, order)
            elif kind == _E and (pid := pids.get(int(found[5]))) is not None:
                self._end(-1, int(found[4]), pid, order)
            elif kind == _I:
                self._mark(found[7].decode(), int(found[8]), order)
            elif kind == _X and (pid := pids.get(int(found[11]))) is not None:
                self._tick(int(found[9]), int(found[10]), pid, order)
            elif (
                kind == _E_WITH_ARGS
                and (pid := pids.get(int(found[5]))) is not None
                and (args := self._plain_args.get(found[6])) is not None
            ):
                self._end(args, int(found[4]), pid, order)
            else:
                break
            place = found.end()
            order += 1
        return place, order

    def put(self, event: Event, pid: int, order: int, text: str) -> None:
        """See ``Pairing``."""
        if event.kind == BEGIN:
            self._begin(event.name, event.ts_us, pid, order)
        elif event.kind == END:
            self._end(self._arg(event.args, text), event.ts_us, pid, order)
        elif event.kind == TICK:
            self._tick(event.rank, event.ts_us, pid, order)
        else:
            self._mark(event.name, event.ts_us, order)

    def rename(self, number: int, code: int) -> None:
        """See ``Pairing``."""
        self._pids[number] = code

    def name(self, code: int, tensor: str) -> None:
        """Pairs are formed by pid alone."""

    def counts(self) -> dict[str, int]:
        """See ``Pairing``."""
        return dict(self._counts)

    def finished(self) -> tuple[Slices, Ticks, Marks, tuple[str, ...], tuple[str, ...]]:
        """See ``Pairing``."""
        columns = _columns(self._slices, 8)
        slices = Slices(
            pid=columns[0].astype(np.int32),
            name=columns[1].astype(np.int32),
            start_us=columns[2],
            dur_us=columns[3],
            depth=columns[4].astype(np.uint8),
            begin_order=columns[5],
            end_order=columns[6],
            args=columns[7].astype(np.int32),
        )
        pid, rank, ts, order = _columns(self._ticks, 4)
        ticks = Ticks(pid.astype(np.int32), rank.astype(np.int32), ts, order)
        name, ts, order = _columns(self._marks, 3)
        marks = Marks(name.astype(np.int32), ts, order)
        return slices, ticks, marks, tuple(self._names), tuple(self._args)

    def _arg(self, args: str | None, text: str) -> int:
        if args is None:
            return -1
        code = _code(self._args, args)
        if plain := _PLAIN.fullmatch(text.encode("latin-1")):
            # What it means is never asked again.
            self._plain_args[plain[6]] = code
        return code

    def _begin(self, name: str, ts_us: int, pid: int, order: int) -> None:
        self._counts[BEGIN] += 1
        stack = self._stacks.setdefault(pid, [])
        if name.startswith(NEGOTIATE) or len(stack) >= DEEPEST:
            stack.clear()
        row = [pid, _code(self._names, name), ts_us, OPEN, len(stack), order, OPEN, -1]
        stack.append(row)
        self._slices.append(row)

    def _end(self, args: int, ts_us: int, pid: int, order: int) -> None:
        self._counts[END] += 1
        stack = self._stacks.get(pid)
        if stack:
            row = stack.pop()
            row[3], row[6], row[7] = ts_us - row[2], order, args
        else:
            self._slices.append([pid, ORPHAN, ts_us, 0, 0, ORPHAN, order, args])

    def _tick(self, rank: int, ts_us: int, pid: int, order: int) -> None:
        self._counts[TICK] += 1
        self._ticks.append((pid, rank, ts_us, order))

    def _mark(self, name: str, ts_us: int, order: int) -> None:
        self._counts[MARK] += 1
        self._marks.append((_code(self._names, name), ts_us, order))


def _code(codes: dict[str, int], text: str) -> int:
    return codes.setdefault(text, len(codes))


def _columns(rows: Sequence[Sequence[int]], width: int) -> list[Int64s]:
    table = np.array(rows, np.int64).reshape(-1, width)
    return [np.ascontiguousarray(table[:, column]) for column in range(width)]
