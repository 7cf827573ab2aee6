"""A timeline file to columns with compiled code; importing this needs numba."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.chunks import Chunks
from hvdprof.ingest.timeline.fields import BEGIN, END, TICK, Event
from hvdprof.ingest.timeline.kernel import FOUND_WIDTH, PLACES_WIDTH, scan
from hvdprof.ingest.timeline.kernel_pairs import (
    ARGS,
    BEGIN_ORDER,
    BEGINS,
    BELOW,
    DEPTH,
    END_ORDER,
    ENDS,
    LENGTH,
    MARKS,
    NAME,
    NARROW_WIDTH,
    NEXT_ORDER,
    PID,
    ROWS,
    START,
    STATE_WIDTH,
    TICKS,
    WIDE_WIDTH,
    begin,
    end_,
    mark,
    tick,
)
from hvdprof.ingest.timeline.kernel_spans import SpanTable
from hvdprof.ingest.timeline.pairing import NEGOTIATE
from hvdprof.ingest.timeline.raw import Int32s, Int64s, Marks, Slices, Ticks

Drain = Callable[[Slices, Ticks, Marks, list[str], list[str]], None]
"""Takes finished rows, with the names and the args that their codes mean."""

_LARGEST_DIRECT_PID = 1 << 22
_FIRST_ROWS = 1 << 16
_ROW_GROUP = 1 << 18
_BYTES_OF_A_SLICE = 100
_MOST_ROWS_AHEAD = 1 << 24
_PLAIN_ARGS = re.compile(r'"args"\s*:\s*(\{[^{}\\]*)\}')


class FastPairing:
    """The pairing whose ``scan`` is compiled; all else does what ``PlainPairing`` does.

    Args:
        drain: Where given, rows that cannot change any more are handed to it whenever there is no
            room for another (with the names and args so far), and are not kept. So memory does
            not grow with the file.
        row_group: Room for so many rows before they are handed on.
        expected_bytes: Size of the text, as far as known: room that is there need not be made.
    """

    def __init__(
        self, drain: Drain | None = None, *, row_group: int = _ROW_GROUP, expected_bytes: int = 0
    ) -> None:
        self._drain = drain
        room = _room_for(expected_bytes) if drain is None else row_group
        self._wide = np.empty((room, WIDE_WIDTH), np.int64)
        self._narrow = np.empty((room, NARROW_WIDTH), np.int32)
        self._ticks = np.empty((room, 4), np.int64)
        self._marks = np.empty((room, 3), np.int64)
        self._top = np.full(1024, -1, np.int32)
        self._codes = np.full(1024, -1, np.int32)
        self._clears = np.zeros(256, np.uint8)
        self._state = np.zeros(STATE_WIDTH, np.int64)
        self._places = np.zeros(PLACES_WIDTH, np.int64)
        self._found = np.zeros(FOUND_WIDTH, np.int64)
        self._name_spans, self._args_spans = SpanTable(), SpanTable()
        self._num_ticks, self._num_marks = 0, 0
        self._names: dict[str, int] = {}
        self._args: dict[str, int] = {}

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        """Take records as long as they are plain and hold nothing new."""
        self._state[NEXT_ORDER] = order
        place = start
        while True:
            self._make_room()
            self._point_to(chunks)
            place = scan(self._places.ctypes.data, place)
            if not self._is_full():
                return int(place), int(self._state[NEXT_ORDER])

    def _point_to(self, chunks: Chunks) -> None:
        names, args = self._name_spans.spans, self._args_spans.spans
        self._places[:] = (
            chunks.data.ctypes.data,
            chunks.end,
            names.places.ctypes.data,
            len(names.slots),
            args.places.ctypes.data,
            len(args.slots),
            self._codes.ctypes.data,
            len(self._codes),
            self._clears.ctypes.data,
            self._wide.ctypes.data,
            self._narrow.ctypes.data,
            self._ticks.ctypes.data,
            self._marks.ctypes.data,
            self._top.ctypes.data,
            self._state.ctypes.data,
            len(self._wide),
            len(self._ticks),
            len(self._marks),
            self._found.ctypes.data,
        )

    def put(self, event: Event, pid: int, order: int, text: str) -> None:
        """See ``Pairing``."""
        self._make_room()
        state, ts_us = self._state, event.ts_us
        state[NEXT_ORDER] = order
        # The arrays are held by this object as long as the compiled code has their addresses.
        wide, narrow = self._wide.ctypes.data, self._narrow.ctypes.data
        top, counters = self._top.ctypes.data, state.ctypes.data
        if event.kind == BEGIN:
            name = self._name(event.name)
            begin(wide, narrow, top, counters, pid, name, ts_us, bool(self._clears[name]))
        elif event.kind == END:
            args = -1 if event.args is None else self._arg(event.args, text)
            end_(wide, narrow, top, counters, pid, args, ts_us)
        elif event.kind == TICK:
            tick(self._ticks.ctypes.data, counters, pid, event.rank, ts_us)
        else:
            mark(self._marks.ctypes.data, counters, self._name(event.name), ts_us)

    def rename(self, number: int, code: int) -> None:
        """See ``Pairing``."""
        if 0 <= number < _LARGEST_DIRECT_PID:
            self._codes = _long_enough(self._codes, number + 1, -1)
            self._codes[number] = code
        self._top = _long_enough(self._top, code + 1, -1)

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
        slices = _slices(self._wide[:num_rows], self._narrow[:num_rows])
        ticks = _ticks(self._ticks[:num_ticks])
        marks = _marks(self._marks[:num_marks])
        return slices, ticks, marks, tuple(self._names), tuple(self._args)

    def _name(self, name: str) -> int:
        code = self._names.setdefault(name, len(self._names))
        if '"' not in name and "\\" not in name and "\0" not in name:
            self._name_spans.learn(name.encode(), code)
        self._clears = _long_enough(self._clears, code + 1, 0)
        self._clears[code] = name.startswith(NEGOTIATE)
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
            state[ROWS] >= len(self._wide)
            or state[TICKS] >= len(self._ticks)
            or state[MARKS] >= len(self._marks)
        )

    def _make_room(self) -> None:
        state = self._state
        if self._drain is not None and self._is_full():
            self._drain_rows(self._drain)
        if state[ROWS] >= len(self._wide):
            self._wide, self._narrow = _doubled(self._wide), _doubled(self._narrow)
        if state[TICKS] >= len(self._ticks):
            self._ticks = _doubled(self._ticks)
        if state[MARKS] >= len(self._marks):
            self._marks = _doubled(self._marks)

    def _drain_rows(self, drain: Drain) -> None:
        state, top = self._state, self._top
        num_rows, num_ticks, num_marks = (int(state[i]) for i in (ROWS, TICKS, MARKS))
        live = np.zeros(num_rows, bool)
        rows = top[top >= 0]
        while len(rows):
            live[rows] = True
            below = self._narrow[rows, BELOW]
            rows = below[below >= 0]
        done = np.flatnonzero(~live)
        slices = _slices(self._wide[done], self._narrow[done])
        ticks, marks = _ticks(self._ticks[:num_ticks]), _marks(self._marks[:num_marks])
        drain(slices, ticks, marks, list(self._names), list(self._args))
        kept = np.flatnonzero(live)
        moved_to = np.append(np.cumsum(live, dtype=np.int32) - 1, np.int32(-1))
        self._wide[: len(kept)] = self._wide[kept]
        self._narrow[: len(kept)] = self._narrow[kept]
        self._narrow[: len(kept), BELOW] = moved_to[self._narrow[: len(kept), BELOW]]
        top[:] = moved_to[top]
        state[ROWS], state[TICKS], state[MARKS] = len(kept), 0, 0
        self._num_ticks += num_ticks
        self._num_marks += num_marks
        if len(kept) > len(self._wide) // 2:
            self._wide, self._narrow = _doubled(self._wide), _doubled(self._narrow)


def _room_for(num_bytes: int) -> int:
    # Memory that is not written to is not taken, so too much room costs nothing.
    return min(max(num_bytes // _BYTES_OF_A_SLICE, _FIRST_ROWS), _MOST_ROWS_AHEAD)


def _slices(wide: Int64s, narrow: Int32s) -> Slices:
    return Slices(
        pid=narrow[:, PID].copy(),
        name=narrow[:, NAME].copy(),
        start_us=wide[:, START].copy(),
        dur_us=wide[:, LENGTH].copy(),
        depth=narrow[:, DEPTH].astype(np.uint8),
        begin_order=wide[:, BEGIN_ORDER].copy(),
        end_order=wide[:, END_ORDER].copy(),
        args=narrow[:, ARGS].copy(),
    )


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


def _doubled(column: Any) -> Any:
    doubled = np.empty((2 * len(column), *column.shape[1:]), column.dtype)
    doubled[: len(column)] = column
    return doubled


def _long_enough(column: Any, length: int, fill: int) -> Any:
    if length <= len(column):
        return column
    grown = np.full(max(length, 2 * len(column)), fill, column.dtype)
    grown[: len(column)] = column
    return grown
