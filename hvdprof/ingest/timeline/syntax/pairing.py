"""Begins and ends to slices, in plain Python: a stack per pid, in file order."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.syntax.fields import BEGIN, END, TICK, Event
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
    """The pairing without compiled code; it takes nothing quickly."""

    def __init__(self) -> None:
        self._slices: list[list[int]] = []
        self._ticks: list[tuple[int, int, int, int]] = []
        self._marks: list[tuple[int, int, int]] = []
        self._stacks: dict[int, list[list[int]]] = {}
        self._names: dict[str, int] = {}
        self._args: dict[str, int] = {}
        self._counts = dict.fromkeys("BEXi", 0)

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        """Nothing is taken quickly."""
        return start, order

    def put(self, event: Event, pid: int, order: int, text: str) -> None:
        """See ``Pairing``."""
        self._counts[event.kind] += 1
        if event.kind == BEGIN:
            self._begin(event, pid, order)
        elif event.kind == END:
            self._end(event, pid, order)
        elif event.kind == TICK:
            self._ticks.append((pid, event.rank, event.ts_us, order))
        else:
            self._marks.append((_code(self._names, event.name), event.ts_us, order))

    def rename(self, number: int, code: int) -> None:
        """Codes are given with every record."""

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

    def _begin(self, event: Event, pid: int, order: int) -> None:
        stack = self._stacks.setdefault(pid, [])
        if event.name.startswith(NEGOTIATE) or len(stack) >= DEEPEST:
            stack.clear()
        name = _code(self._names, event.name)
        row = [pid, name, event.ts_us, OPEN, len(stack), order, OPEN, -1]
        stack.append(row)
        self._slices.append(row)

    def _end(self, event: Event, pid: int, order: int) -> None:
        args = -1 if event.args is None else _code(self._args, event.args)
        stack = self._stacks.get(pid)
        if stack:
            row = stack.pop()
            row[3], row[6], row[7] = event.ts_us - row[2], order, args
        else:
            self._slices.append([pid, ORPHAN, event.ts_us, 0, 0, ORPHAN, order, args])


def _code(codes: dict[str, int], text: str) -> int:
    return codes.setdefault(text, len(codes))


def _columns(rows: Sequence[Sequence[int]], width: int) -> list[Int64s]:
    table = np.array(rows, np.int64).reshape(-1, width)
    return [np.ascontiguousarray(table[:, column]) for column in range(width)]
