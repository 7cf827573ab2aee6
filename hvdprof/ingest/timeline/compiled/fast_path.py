"""A timeline file to columns with compiled code.

A second thread parses the next window of the text while this one pairs the records of the window
before, and finds their meaning. Nothing is learned and the window stays as long as it parses.
"""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.compiled.kernel_pairs import (
    BEGINS,
    COLLECTIVE,
    ENDS,
    KIND_BEGIN,
    KIND_END,
    KIND_MARK,
    KIND_TICK,
    MARKS,
    NEGOTIATES,
    NEXT_ORDER,
    QUIESCENT,
    ROWS,
    SETTLING_WIDTH,
    STATE_WIDTH,
    TICKS,
    WAITS,
    RowColumns,
    doubled,
    pair,
)
from hvdprof.ingest.timeline.compiled.kernel_records import Records
from hvdprof.ingest.timeline.compiled.kernel_spans import SpanTable
from hvdprof.ingest.timeline.machine_code import compiled
from hvdprof.ingest.timeline.meaning.activities import NEVER_BEGUN, OPERATIONS
from hvdprof.ingest.timeline.syntax.fields import BEGIN, END, MARK, TICK, Event
from hvdprof.ingest.timeline.syntax.pairing import NEGOTIATE
from hvdprof.ingest.timeline.syntax.parsed_timeline import Marks, Slices, Ticks, stood_at
from hvdprof.model.arrays import Int32s, Int64s

Offer = Callable[[Slices, Ticks, Marks, list[str], list[str], int], int]
"""Called with all rows so far, the names and the args that their codes mean, and the number of the
last record before which Horovod was quiescent; returns the number of the first record that is still
needed: rows that stood before it are forgotten."""

_LARGEST_DIRECT_PID = 1 << 22
_TICK_ORDER, _MARK_ORDER = 3, 2
"""Columns of the rows of ticks and marks that hold the number of the record."""
_FIRST_ROWS = 1 << 16
_ROW_GROUP = 1 << 18
_BYTES_OF_A_SLICE = 100
_MOST_ROWS_AHEAD = 1 << 24
_MOST_RECORDS = 1 << 16
_WORTH_TAKING = 4
"""Less than this part of the room free again means that more room is needed."""
_WINDOW_CHUNKS = 2
_LONGEST_USUAL_RECORD = 1 << 12
_KINDS = {BEGIN: KIND_BEGIN, END: KIND_END, TICK: KIND_TICK, MARK: KIND_MARK}
_RECORD = np.dtype([("time", np.int64), ("pid_and_kind", np.int32), ("code", np.int32)])
_PLAIN_ARGS = re.compile(r'"args"\s*:\s*(\{[^{}\\]*)\}')


class FastPairing:
    """The pairing whose ``scan`` is compiled; all else does what ``PlainPairing`` does.

    Args:
        offer: Where given, it is shown the rows whenever there is no room for another, and takes
            as many of the first as it can do with; there is made room for more if those are few.
        row_group: Room for so many rows before they are offered.
        expected_bytes: Size of the text, as far as known: room that is there need not be made.
    """

    def __init__(
        self, offer: Offer | None = None, *, row_group: int = _ROW_GROUP, expected_bytes: int = 0
    ) -> None:
        self._offer = offer
        room = _room_for(expected_bytes) if offer is None else row_group
        self._rows = RowColumns(room)
        self._ticks = np.empty((room, 4), np.int64)
        self._marks = np.empty((room, 3), np.int64)
        self._top = np.full(1024, -1, np.int32)
        self._codes = np.full(1024, -1, np.int32)
        self._tensor_of = np.arange(1024, dtype=np.int32)
        self._settling = np.zeros((1024, SETTLING_WIDTH), np.int64)
        self._tensors: dict[str, int] = {}
        self._says = np.zeros(256, np.uint8)
        self._state = np.zeros(STATE_WIDTH, np.int64)
        self._one = np.zeros(1, _RECORD)
        self._records, self._spare = Records(_MOST_RECORDS), Records(_MOST_RECORDS)
        self._thread = ThreadPoolExecutor(1)
        self._name_spans, self._args_spans = SpanTable(), SpanTable()
        self._num_ticks, self._num_marks = 0, 0
        self._names: dict[str, int] = {}
        self._collectives = set(OPERATIONS)
        self._args: dict[str, int] = {}

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        """Take records as long as they are plain and hold nothing new; moves the window on."""
        self._state[NEXT_ORDER] = order
        place = self._fill(chunks, start)
        while True:
            is_used_up = chunks.end - place < min(chunks.chunk_bytes, _LONGEST_USUAL_RECORD)
            if is_used_up and not chunks.final:
                place = _refilled(chunks, place)
            elif not self._records.is_full:
                self._pair(self._records.records, self._records.count)
                return place, int(self._state[NEXT_ORDER])
            parsed, self._records, self._spare = self._records, self._spare, self._records
            ahead = self._thread.submit(self._fill, chunks, place)
            try:
                self._pair(parsed.records, parsed.count)
            finally:
                place = ahead.result()

    def _fill(self, chunks: Chunks, start: int) -> int:
        names, args = self._name_spans.spans, self._args_spans.spans
        return self._records.fill(chunks, start, names, args, self._codes)

    def _pair(self, records: tuple[Int64s, Int32s], count: int) -> None:
        done = 0
        while done < count:
            self._make_room()
            known = (self._top, self._tensor_of, self._settling, self._says)
            rows, ticks, marks = self._rows.columns, self._ticks, self._marks
            done = compiled(pair)(records, done, count, rows, ticks, marks, known, self._state)

    def put(self, event: Event, pid: int, order: int, text: str) -> None:
        """See ``Pairing``."""
        if event.kind == END:
            code = -1 if event.args is None else self._arg(event.args, text)
        else:
            code = event.rank if event.kind == TICK else self._name(event.name)
        self._state[NEXT_ORDER] = order
        self._one[0] = (event.ts_us, (pid << 2) | _KINDS[event.kind], code)
        self._pair((self._one.view(np.int64), self._one.view(np.int32)), 1)

    def rename(self, number: int, code: int) -> None:
        """See ``Pairing``."""
        if 0 <= number < _LARGEST_DIRECT_PID:
            self._codes = _long_enough(self._codes, number + 1, -1)
            self._codes[number] = code
        self._top = _long_enough(self._top, code + 1, -1)
        self._settling = _long_enough(self._settling, code + 1, 0)
        if code >= len(self._tensor_of):
            more = np.arange(len(self._tensor_of), len(self._top), dtype=np.int32)
            self._tensor_of = np.append(self._tensor_of, more)

    def name(self, code: int, tensor: str) -> None:
        """See ``Pairing``."""
        self._tensor_of[code] = self._tensors.setdefault(tensor, code)

    def counts(self) -> dict[str, int]:
        """See ``Pairing``."""
        state = self._state
        return {
            "B": int(state[BEGINS]),
            "E": int(state[ENDS]),
            "X": int(state[TICKS]) + self._num_ticks,
            "i": int(state[MARKS]) + self._num_marks,
        }

    def finished(self) -> tuple[Slices, Ticks, Marks, tuple[str, ...], tuple[str, ...]]:
        """See ``Pairing``."""
        num_rows, num_ticks, num_marks = (int(self._state[i]) for i in (ROWS, TICKS, MARKS))
        self._thread.shutdown()
        slices = self._rows.slices(slice(num_rows))
        ticks = _ticks(self._ticks[:num_ticks])
        marks = _marks(self._marks[:num_marks])
        return slices, ticks, marks, tuple(self._names), tuple(self._args)

    def _name(self, name: str) -> int:
        code = self._names.setdefault(name, len(self._names))
        if '"' not in name and "\\" not in name and "\0" not in name:
            self._name_spans.learn(name.encode(), code)
        self._says = _long_enough(self._says, code + 1, 0)
        collective = name.removeprefix(NEGOTIATE)
        if collective != name:
            self._collectives.add(collective)
            self._says[self._names.get(collective, code)] |= COLLECTIVE
            waits = WAITS if collective not in NEVER_BEGUN else 0
            self._says[code] = NEGOTIATES | waits
        elif name in self._collectives:
            self._says[code] |= COLLECTIVE
        return code

    def _arg(self, args: str, text: str) -> int:
        code = self._args.setdefault(args, len(self._args))
        found = _PLAIN_ARGS.search(text)
        if found is not None and text.isascii() and _says(found.group(1) + "}", args):
            self._args_spans.learn(found.group(1).encode(), code)
        return code

    def _is_full(self) -> bool:
        state = self._state
        return bool(
            state[ROWS] >= self._rows.room
            or state[TICKS] >= len(self._ticks)
            or state[MARKS] >= len(self._marks)
        )

    def _make_room(self) -> None:
        state = self._state
        if self._offer is not None and self._is_full():
            self._offer_rows(self._offer)
        if state[ROWS] >= self._rows.room:
            self._rows.double()
        if state[TICKS] >= len(self._ticks):
            self._ticks = doubled(self._ticks)
        if state[MARKS] >= len(self._marks):
            self._marks = doubled(self._marks)

    def _offer_rows(self, offer: Offer) -> None:
        state = self._state
        num_rows, num_ticks, num_marks = (int(state[i]) for i in (ROWS, TICKS, MARKS))
        slices = self._rows.slices(slice(num_rows))
        ticks, marks = self._ticks[:num_ticks], self._marks[:num_marks]
        names, args = list(self._names), list(self._args)
        quiescent = int(state[QUIESCENT])
        needed = offer(slices, _ticks(ticks), _marks(marks), names, args, quiescent)
        done = int(np.searchsorted(stood_at(slices), needed))
        ticks_done = int(np.searchsorted(ticks[:, _TICK_ORDER], needed))
        marks_done = int(np.searchsorted(marks[:, _MARK_ORDER], needed))
        self._rows.drop_first(done, num_rows)
        np.maximum(self._top - done, -1, out=self._top)
        ticks[: num_ticks - ticks_done] = ticks[ticks_done:].copy()
        marks[: num_marks - marks_done] = marks[marks_done:].copy()
        state[ROWS] -= done
        state[TICKS] -= ticks_done
        state[MARKS] -= marks_done
        self._num_ticks += ticks_done
        self._num_marks += marks_done
        if num_rows - done > self._rows.room - self._rows.room // _WORTH_TAKING:
            self._rows.double()
        if num_ticks - ticks_done > len(self._ticks) - len(self._ticks) // _WORTH_TAKING:
            self._ticks = doubled(self._ticks)
        if num_marks - marks_done > len(self._marks) - len(self._marks) // _WORTH_TAKING:
            self._marks = doubled(self._marks)


def _room_for(num_bytes: int) -> int:
    # Memory that is not written to is not taken, so too much room costs nothing.
    return min(max(num_bytes // _BYTES_OF_A_SLICE, _FIRST_ROWS), _MOST_ROWS_AHEAD)


def _refilled(chunks: Chunks, place: int) -> int:
    """Move the window on until it holds a few chunks; where the place is in it then."""
    # Two bytes before the place decide whether a record may start there.
    keep = max(place - 2, 0)
    chunks.forget(keep)
    place -= keep
    while chunks.end - place < _WINDOW_CHUNKS * chunks.chunk_bytes and not chunks.final:
        chunks.more()
    return place


def _ticks(rows: Int64s) -> Ticks:
    pid, rank = rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32)
    return Ticks(pid, rank, rows[:, 2].copy(), rows[:, 3].copy())


def _marks(rows: Int64s) -> Marks:
    return Marks(rows[:, 0].astype(np.int32), rows[:, 1].copy(), rows[:, 2].copy())


def _says(span: str, args: str) -> bool:
    try:
        return json.dumps(json.loads(span, strict=False), ensure_ascii=False) == args
    except ValueError:
        return False


def _long_enough(column: Any, length: int, fill: int) -> Any:
    if length <= len(column):
        return column
    room = max(length, 2 * len(column))
    grown = np.full((room, *column.shape[1:]), fill, column.dtype)
    grown[: len(column)] = column
    return grown
