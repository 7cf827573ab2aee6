"""Parsed records to rows, compiled as ``pairing.PlainPairing`` makes them, and their columns.

A record is 16 bytes: its time; the code of its pid and its kind; and the code of its name (begins
and marks), of its args (ends) or its rank (ticks). The lowest two bits of the second are the kind.

It also finds where the file can be cut in two so that the meaning of neither part depends on the
other. Horovod is quiescent between steps: nothing is open, and all that was agreed on has been
executed. Before such a place every slice has its end, and every negotiation its operation or the
proof that none came: the next negotiation or operation of the tensor. ``uses``, ``fusion`` and
``ticks`` then say of the rows before it what they say of the whole file.
"""

from typing import Any

import numpy as np

from hvdprof.ingest.timeline.syntax.parsed_timeline import DEEPEST, Slices

KIND_BEGIN, KIND_END, KIND_TICK, KIND_MARK = range(4)

NEGOTIATES, WAITS, COLLECTIVE = 1, 2, 4
"""What a name says: a negotiation, which clears the stack; one that an operation follows; a
collective, which is an operation where nothing is open around it."""

AWAITING, LOST, PENDING, BASE, SETTLING_WIDTH = range(5)
"""Columns by tensor: rows that settle at its next negotiation or operation, because they are a
negotiation that ended (``AWAITING``) or will never end (``LOST``); rows that will never end, and
settle one negotiation later (``PENDING``); the record of its last negotiation or operation."""

ROWS, TICKS, MARKS, BEGINS, ENDS, NEXT_ORDER, UNSETTLED, QUIESCENT, STATE_WIDTH = range(9)
"""Places in the array of counters; ``QUIESCENT`` is the last record before which all is settled."""

_DTYPES: dict[str, type[np.generic]] = {
    "start_us": np.int64,
    "dur_us": np.int64,
    "begin_order": np.int64,
    "end_order": np.int64,
    "pid": np.int32,
    "name": np.int32,
    "args": np.int32,
    "below": np.int32,
    "depth": np.uint8,
}
"""Widest first, so that each is aligned behind the one before; ``below`` is the row below on the
stack."""

_ORDER = ("pid", "name", "start_us", "dur_us", "depth", "begin_order", "end_order", "args", "below")


def pair(  # noqa: PLR0915 - one loop: arrays that change hands are counted by numba
    records: Any, done: int, count: int, rows: Any, ticks: Any, marks: Any, known: Any, state: Any
) -> int:
    """Take records as long as there is room for their rows; the number of the next record.

    Args:
        records: The memory of the records as 64 and as 32 bits.
        done: The record to begin with.
        count: The number of records.
        rows: The columns of ``RowColumns``.
        ticks: Rows of (code of the pid, rank, time, number).
        marks: Rows of (code of the name, time, number).
        known: By code of the pid its innermost open row (-1 for none) and its tensor; what is not
            settled by tensor; what a name says by its code.
        state: The counters.
    """
    times, halves = records
    pid_of, name_of, start_us, dur_us, depth, begin_order, end_order, args, below_of = rows
    top, tensor_of, settling, says = known
    for number in range(done, count):
        row = state[ROWS]
        if row >= len(start_us) or state[TICKS] >= len(ticks) or state[MARKS] >= len(marks):
            return number
        ts_us, both, code = times[2 * number], halves[4 * number + 2], halves[4 * number + 3]
        kind, pid = both & 3, both >> 2
        order = state[NEXT_ORDER]
        state[NEXT_ORDER] = order + 1
        if kind == KIND_BEGIN:
            if state[UNSETTLED] == 0:
                state[QUIESCENT] = order
            below, said, of = top[pid], says[code], tensor_of[pid]
            level = depth[below] + 1 if below >= 0 else 0
            lost = 0
            if said & NEGOTIATES or level >= DEEPEST:
                lost, level, below = level, 0, -1
            if said & NEGOTIATES or (said & COLLECTIVE and level == 0):
                state[UNSETTLED] -= settling[of, AWAITING] + settling[of, LOST]
                settling[of, AWAITING] = settling[of, LOST] = 0
                settling[of, BASE] = order
            settling[of, PENDING] += lost
            if said & NEGOTIATES:
                settling[of, LOST] = settling[of, PENDING]
                settling[of, PENDING] = 0
            state[UNSETTLED] += 1
            pid_of[row], name_of[row] = pid, code
            start_us[row], dur_us[row], depth[row] = ts_us, -1, level
            begin_order[row], end_order[row], args[row] = order, -1, -1
            below_of[row] = below
            top[pid] = row
            state[ROWS] = row + 1
            state[BEGINS] += 1
        elif kind == KIND_END:
            state[ENDS] += 1
            inner = top[pid]
            if inner >= 0:
                top[pid] = below_of[inner]
                dur_us[inner] = ts_us - start_us[inner]
                of = tensor_of[pid]
                waits = says[name_of[inner]] & WAITS
                if waits and settling[of, BASE] == begin_order[inner]:
                    settling[of, AWAITING] = 1
                else:
                    state[UNSETTLED] -= 1
            else:
                inner = row
                state[ROWS] = row + 1
                pid_of[row], name_of[row] = pid, -1
                start_us[row], dur_us[row], depth[row] = ts_us, 0, 0
                begin_order[row], below_of[row] = -1, -1
            end_order[inner], args[inner] = order, code
        elif kind == KIND_TICK:
            tick = state[TICKS]
            ticks[tick, 0], ticks[tick, 1], ticks[tick, 2], ticks[tick, 3] = pid, code, ts_us, order
            state[TICKS] = tick + 1
        else:
            mark = state[MARKS]
            marks[mark, 0], marks[mark, 1], marks[mark, 2] = code, ts_us, order
            state[MARKS] = mark + 1
    return count


class RowColumns:
    """Room for slices.

    Attributes:
        columns: The columns as ``kernel_pairs.pair`` takes them; new after ``double``.
    """

    def __init__(self, room: int) -> None:
        self.columns = _columns(room)

    @property
    def room(self) -> int:
        """Rows that there is room for."""
        return len(self.columns[0])

    def double(self) -> None:
        """Make room for as many rows again."""
        more = _columns(2 * self.room)
        for old, new in zip(self.columns, more, strict=True):
            new[: self.room] = old
        self.columns = more

    def slices(self, which: slice) -> Slices:
        """Some of the rows; a view."""
        named = {name: column[which] for name, column in zip(_ORDER, self.columns, strict=True)}
        del named["below"]
        return Slices(**named)

    def drop_first(self, number: int, length: int) -> None:
        """Forget the first of so many rows; none that is left may stand above one of them."""
        for column in self.columns:
            column[: length - number] = column[number:length].copy()
        below = self.columns[_ORDER.index("below")][: length - number]
        np.maximum(below - number, -1, out=below)


def _columns(room: int) -> tuple[Any, ...]:
    # One piece of memory is large enough for huge pages where nine are not.
    sizes = [room * np.dtype(dtype).itemsize for dtype in _DTYPES.values()]
    memory = np.empty(sum(sizes), np.uint8)
    ends = np.cumsum(sizes).tolist()
    columns: dict[str, Any] = {
        column: memory[end - size : end].view(dtype)
        for (column, dtype), size, end in zip(_DTYPES.items(), sizes, ends, strict=True)
    }
    return tuple(columns[name] for name in _ORDER)


def doubled(column: Any) -> Any:
    """The rows of a column with as much room again behind them."""
    more = np.empty((2 * len(column), *column.shape[1:]), column.dtype)
    more[: len(column)] = column
    return more
