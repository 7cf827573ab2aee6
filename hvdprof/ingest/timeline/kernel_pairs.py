"""Begins and ends to rows, compiled: the same as ``pairing.PlainPairing``, row by row.

A row of the wide table is (start, length, number of the begin, number of the end); one of the
narrow table (code of the pid, code of the name, code of the args, row below on the stack, depth).
"""

import numpy as np

from hvdprof.ingest.timeline.kernel_spans import inlined
from hvdprof.ingest.timeline.raw import DEEPEST, Int32s, Int64s

START, LENGTH, BEGIN_ORDER, END_ORDER, WIDE_WIDTH = range(5)
PID, NAME, ARGS, BELOW, DEPTH, NARROW_WIDTH = range(6)
ROWS, TICKS, MARKS, BEGINS, ENDS, NEXT_ORDER, STATE_WIDTH = range(7)
"""Places in the array of counters."""


@inlined
def begin(
    wide: Int64s,
    narrow: Int32s,
    top: Int32s,
    state: Int64s,
    pid: int,
    name: int,
    ts_us: int,
    clears: bool,
) -> None:
    """Take a begin; ``clears`` where its name clears the stack."""
    row = state[ROWS]
    below = np.int64(top[pid])
    depth = np.int64(0)
    if below >= 0:
        depth = np.int64(narrow[below, DEPTH]) + 1
        if clears or depth >= DEEPEST:
            depth = 0
            below = -1
    wide[row, START] = ts_us
    wide[row, LENGTH] = -1
    wide[row, BEGIN_ORDER] = state[NEXT_ORDER]
    wide[row, END_ORDER] = -1
    narrow[row, PID] = pid
    narrow[row, NAME] = name
    narrow[row, ARGS] = -1
    narrow[row, BELOW] = below
    narrow[row, DEPTH] = depth
    top[pid] = row
    state[ROWS] = row + 1
    state[BEGINS] += 1
    state[NEXT_ORDER] += 1


@inlined
def end_(
    wide: Int64s, narrow: Int32s, top: Int32s, state: Int64s, pid: int, args: int, ts_us: int
) -> None:
    """Take an end; an orphan makes a row of its own."""
    row = np.int64(top[pid])
    if row >= 0:
        top[pid] = narrow[row, BELOW]
        wide[row, LENGTH] = ts_us - wide[row, START]
    else:
        row = state[ROWS]
        state[ROWS] = row + 1
        wide[row, START] = ts_us
        wide[row, LENGTH] = 0
        wide[row, BEGIN_ORDER] = -1
        narrow[row, PID] = pid
        narrow[row, NAME] = -1
        narrow[row, BELOW] = -1
        narrow[row, DEPTH] = 0
    wide[row, END_ORDER] = state[NEXT_ORDER]
    narrow[row, ARGS] = args
    state[ENDS] += 1
    state[NEXT_ORDER] += 1


@inlined
def tick(ticks: Int64s, state: Int64s, pid: int, rank: int, ts_us: int) -> None:
    """Take a tick: a row of (code of the pid, rank, time, number)."""
    row = state[TICKS]
    ticks[row, 0] = pid
    ticks[row, 1] = rank
    ticks[row, 2] = ts_us
    ticks[row, 3] = state[NEXT_ORDER]
    state[TICKS] = row + 1
    state[NEXT_ORDER] += 1


@inlined
def mark(marks: Int64s, state: Int64s, name: int, ts_us: int) -> None:
    """Take a cycle mark: a row of (code of the name, time, number)."""
    row = state[MARKS]
    marks[row, 0] = name
    marks[row, 1] = ts_us
    marks[row, 2] = state[NEXT_ORDER]
    state[MARKS] = row + 1
    state[NEXT_ORDER] += 1
