"""Begins and ends to rows, compiled: the same as ``pairing.PlainPairing``, row by row.

A row of the wide table is (start, length, number of the begin, number of the end); one of the
narrow table (code of the pid, code of the name, code of the args, row below on the stack, depth).
"""

import numpy as np

from hvdprof.ingest.timeline.kernel_memory import int_at, long_at, put_int, put_long
from hvdprof.ingest.timeline.kernel_spans import compiled
from hvdprof.ingest.timeline.raw import DEEPEST

START, LENGTH, BEGIN_ORDER, END_ORDER, WIDE_WIDTH = range(5)
PID, NAME, ARGS, BELOW, DEPTH, NARROW_WIDTH = range(6)
ROWS, TICKS, MARKS, BEGINS, ENDS, NEXT_ORDER, STATE_WIDTH = range(7)
"""Places in the array of counters."""


@compiled
def begin(
    wide: int,
    narrow: int,
    top: int,
    state: int,
    pid: int,
    name: int,
    ts_us: int,
    clears: bool,
) -> None:
    """Take a begin; ``clears`` where its name clears the stack."""
    row = long_at(state + 8 * ROWS)
    below = np.int64(int_at(top + 4 * pid))
    depth = np.int64(0)
    if below >= 0:
        depth = np.int64(int_at(narrow + 20 * below + 4 * DEPTH)) + 1
        if clears or depth >= DEEPEST:
            depth = 0
            below = -1
    put_long(wide + 32 * row + 8 * START, ts_us)
    put_long(wide + 32 * row + 8 * LENGTH, -1)
    put_long(wide + 32 * row + 8 * BEGIN_ORDER, long_at(state + 8 * NEXT_ORDER))
    put_long(wide + 32 * row + 8 * END_ORDER, -1)
    put_int(narrow + 20 * row + 4 * PID, pid)
    put_int(narrow + 20 * row + 4 * NAME, name)
    put_int(narrow + 20 * row + 4 * ARGS, -1)
    put_int(narrow + 20 * row + 4 * BELOW, below)
    put_int(narrow + 20 * row + 4 * DEPTH, depth)
    put_int(top + 4 * pid, row)
    put_long(state + 8 * ROWS, row + 1)
    put_long(state + 8 * BEGINS, long_at(state + 8 * BEGINS) + 1)
    put_long(state + 8 * NEXT_ORDER, long_at(state + 8 * NEXT_ORDER) + 1)


@compiled
def end_(wide: int, narrow: int, top: int, state: int, pid: int, args: int, ts_us: int) -> None:
    """Take an end; an orphan makes a row of its own."""
    row = np.int64(int_at(top + 4 * pid))
    if row >= 0:
        put_int(top + 4 * pid, int_at(narrow + 20 * row + 4 * BELOW))
        put_long(wide + 32 * row + 8 * LENGTH, ts_us - long_at(wide + 32 * row + 8 * START))
    else:
        row = long_at(state + 8 * ROWS)
        put_long(state + 8 * ROWS, row + 1)
        put_long(wide + 32 * row + 8 * START, ts_us)
        put_long(wide + 32 * row + 8 * LENGTH, 0)
        put_long(wide + 32 * row + 8 * BEGIN_ORDER, -1)
        put_int(narrow + 20 * row + 4 * PID, pid)
        put_int(narrow + 20 * row + 4 * NAME, -1)
        put_int(narrow + 20 * row + 4 * BELOW, -1)
        put_int(narrow + 20 * row + 4 * DEPTH, 0)
    put_long(wide + 32 * row + 8 * END_ORDER, long_at(state + 8 * NEXT_ORDER))
    put_int(narrow + 20 * row + 4 * ARGS, args)
    put_long(state + 8 * ENDS, long_at(state + 8 * ENDS) + 1)
    put_long(state + 8 * NEXT_ORDER, long_at(state + 8 * NEXT_ORDER) + 1)


@compiled
def tick(ticks: int, state: int, pid: int, rank: int, ts_us: int) -> None:
    """Take a tick: a row of (code of the pid, rank, time, number)."""
    row = long_at(state + 8 * TICKS)
    put_long(ticks + 32 * row + 8 * 0, pid)
    put_long(ticks + 32 * row + 8 * 1, rank)
    put_long(ticks + 32 * row + 8 * 2, ts_us)
    put_long(ticks + 32 * row + 8 * 3, long_at(state + 8 * NEXT_ORDER))
    put_long(state + 8 * TICKS, row + 1)
    put_long(state + 8 * NEXT_ORDER, long_at(state + 8 * NEXT_ORDER) + 1)


@compiled
def mark(marks: int, state: int, name: int, ts_us: int) -> None:
    """Take a cycle mark: a row of (code of the name, time, number)."""
    row = long_at(state + 8 * MARKS)
    put_long(marks + 24 * row + 8 * 0, name)
    put_long(marks + 24 * row + 8 * 1, ts_us)
    put_long(marks + 24 * row + 8 * 2, long_at(state + 8 * NEXT_ORDER))
    put_long(state + 8 * MARKS, row + 1)
    put_long(state + 8 * NEXT_ORDER, long_at(state + 8 * NEXT_ORDER) + 1)
