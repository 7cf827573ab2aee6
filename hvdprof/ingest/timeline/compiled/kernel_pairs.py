"""Parsed records to rows, compiled: the same as ``pairing.PlainPairing``, row by row.

A record is 16 bytes: its time; the code of its pid and its kind; and the code of its name (begins
and marks), of its args (ends) or its rank (ticks).
"""

import numpy as np

from hvdprof.ingest.timeline.column_loops import compiled
from hvdprof.ingest.timeline.compiled.kernel_memory import (
    byte_at,
    int_at,
    long_at,
    put_byte,
    put_int,
    put_long,
)
from hvdprof.ingest.timeline.syntax.parsed_timeline import DEEPEST

TIME, PID_AND_KIND, CODE, RECORD_BYTES = 0, 8, 12, 16
"""Where the fields of a record stand; the lowest two bits of ``PID_AND_KIND`` are the kind."""

KIND_BEGIN, KIND_END, KIND_TICK, KIND_MARK = range(4)

PID, NAME, START, LENGTH, DEPTH, BEGIN_ORDER, END_ORDER, ARGS, BELOW, NUM_COLUMNS = range(10)
"""Columns of the rows in the array of their addresses; ``BELOW`` is the row below on the stack."""

COLUMNS, TICK_ROWS, MARK_ROWS, TOP, CLEARS, STATE = range(6)
MOST_ROWS, MOST_TICKS, MOST_MARKS, PLACES_WIDTH = range(6, 10)
"""Places in the array of what ``pair`` works on: addresses, and how many rows there is room for.

``TOP`` is the innermost open row by code of the pid, -1 for none; ``CLEARS`` says by code of a name
whether it clears the stack.
"""

ROWS, TICKS, MARKS, BEGINS, ENDS, NEXT_ORDER, STATE_WIDTH = range(7)
"""Places in the array of counters."""


@compiled
def pair(places: int, records: int, count: int) -> int:
    """Take records as long as there is room for their rows; how many were taken.

    Args:
        places: Address of the array of places.
        records: Address of the records.
        count: Number of the records.
    """
    columns, state = long_at(places + 8 * COLUMNS), long_at(places + 8 * STATE)
    top, clears = long_at(places + 8 * TOP), long_at(places + 8 * CLEARS)
    ticks, marks = long_at(places + 8 * TICK_ROWS), long_at(places + 8 * MARK_ROWS)
    most_rows = long_at(places + 8 * MOST_ROWS)
    most_ticks, most_marks = long_at(places + 8 * MOST_TICKS), long_at(places + 8 * MOST_MARKS)
    for number in range(count):
        if (
            long_at(state + 8 * ROWS) >= most_rows
            or long_at(state + 8 * TICKS) >= most_ticks
            or long_at(state + 8 * MARKS) >= most_marks
        ):
            return number
        record = records + RECORD_BYTES * number
        ts_us, code = long_at(record + TIME), int_at(record + CODE)
        both = int_at(record + PID_AND_KIND)
        kind, pid = both & 3, both >> 2
        order = long_at(state + 8 * NEXT_ORDER)
        if kind == KIND_BEGIN:
            begin(columns, top, state, pid, code, ts_us, order, byte_at(clears + code) != 0)
        elif kind == KIND_END:
            end_(columns, top, state, pid, code, ts_us, order)
        elif kind == KIND_TICK:
            tick(ticks, state, pid, code, ts_us, order)
        else:
            mark(marks, state, code, ts_us, order)
        put_long(state + 8 * NEXT_ORDER, order + 1)
    return count


@compiled
def begin(
    columns: int,
    top: int,
    state: int,
    pid: int,
    name: int,
    ts_us: int,
    order: int,
    clears: bool,
) -> None:
    """Take a begin; ``clears`` where its name clears the stack."""
    row = long_at(state + 8 * ROWS)
    below = np.int64(int_at(top + 4 * pid))
    depth = np.int64(0)
    if below >= 0:
        depth = np.int64(byte_at(long_at(columns + 8 * DEPTH) + below)) + 1
        if clears or depth >= DEEPEST:
            depth = 0
            below = -1
    put_int(long_at(columns + 8 * PID) + 4 * row, pid)
    put_int(long_at(columns + 8 * NAME) + 4 * row, name)
    put_long(long_at(columns + 8 * START) + 8 * row, ts_us)
    put_long(long_at(columns + 8 * LENGTH) + 8 * row, -1)
    put_byte(long_at(columns + 8 * DEPTH) + row, depth)
    put_long(long_at(columns + 8 * BEGIN_ORDER) + 8 * row, order)
    put_long(long_at(columns + 8 * END_ORDER) + 8 * row, -1)
    put_int(long_at(columns + 8 * ARGS) + 4 * row, -1)
    put_int(long_at(columns + 8 * BELOW) + 4 * row, below)
    put_int(top + 4 * pid, row)
    put_long(state + 8 * ROWS, row + 1)
    put_long(state + 8 * BEGINS, long_at(state + 8 * BEGINS) + 1)


@compiled
def end_(columns: int, top: int, state: int, pid: int, args: int, ts_us: int, order: int) -> None:
    """Take an end; an orphan makes a row of its own."""
    row = np.int64(int_at(top + 4 * pid))
    if row >= 0:
        put_int(top + 4 * pid, int_at(long_at(columns + 8 * BELOW) + 4 * row))
        start = long_at(long_at(columns + 8 * START) + 8 * row)
        put_long(long_at(columns + 8 * LENGTH) + 8 * row, ts_us - start)
    else:
        row = long_at(state + 8 * ROWS)
        put_long(state + 8 * ROWS, row + 1)
        put_int(long_at(columns + 8 * PID) + 4 * row, pid)
        put_int(long_at(columns + 8 * NAME) + 4 * row, -1)
        put_long(long_at(columns + 8 * START) + 8 * row, ts_us)
        put_long(long_at(columns + 8 * LENGTH) + 8 * row, 0)
        put_byte(long_at(columns + 8 * DEPTH) + row, 0)
        put_long(long_at(columns + 8 * BEGIN_ORDER) + 8 * row, -1)
        put_int(long_at(columns + 8 * BELOW) + 4 * row, -1)
    put_long(long_at(columns + 8 * END_ORDER) + 8 * row, order)
    put_int(long_at(columns + 8 * ARGS) + 4 * row, args)
    put_long(state + 8 * ENDS, long_at(state + 8 * ENDS) + 1)


@compiled
def tick(ticks: int, state: int, pid: int, rank: int, ts_us: int, order: int) -> None:
    """Take a tick: a row of (code of the pid, rank, time, number)."""
    row = long_at(state + 8 * TICKS)
    put_long(ticks + 32 * row + 8 * 0, pid)
    put_long(ticks + 32 * row + 8 * 1, rank)
    put_long(ticks + 32 * row + 8 * 2, ts_us)
    put_long(ticks + 32 * row + 8 * 3, order)
    put_long(state + 8 * TICKS, row + 1)


@compiled
def mark(marks: int, state: int, name: int, ts_us: int, order: int) -> None:
    """Take a cycle mark: a row of (code of the name, time, number)."""
    row = long_at(state + 8 * MARKS)
    put_long(marks + 24 * row + 8 * 0, name)
    put_long(marks + 24 * row + 8 * 1, ts_us)
    put_long(marks + 24 * row + 8 * 2, order)
    put_long(state + 8 * MARKS, row + 1)
