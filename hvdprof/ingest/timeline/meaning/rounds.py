"""Rounds of a recurring set of tensors, out of the reductions of gradients, part by part.

A round ends where a tensor of the set comes again. Nothing is held but the round that is not over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.model.arrays import Bools, Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Reductions:
    """The reductions of a file or of a part of one, in the order in which negotiation began.

    ``ready_us`` is where the negotiation began, ``end_us`` where the operation ended (where it
    began, if its end is not in the file); ``size_bytes`` is -1 where unknown.
    """

    tensor: Int32s
    ready_us: Int64s
    end_us: Int64s
    size_bytes: Int64s

    def __len__(self) -> int:
        """The number of reductions."""
        return len(self.tensor)


SINGLE_TENSOR = 0.5
"""Stands for the evidence of pauses where there is one tensor, so that no round has an inside."""

_ROUNDS_TO_ALIGN = 50
_STARTS_TO_TRY = 512
# Most recordings begin with a step, so a later start must explain more than noise does.
_CLEARLY_BETTER = 0.1
_NO_PAUSE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class SetRows:
    """Reductions of tensors of the set, each with the pause before it.

    ``pause_us`` is the time since all reductions before it had ended, of the set or not; negative
    where one had not.
    """

    tensor: Int32s
    ready_us: Int64s
    end_us: Int64s
    size_bytes: Int64s
    pause_us: Int64s

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.tensor)

    def cut(self, rows: slice) -> "SetRows":
        """Some of the rows."""
        return SetRows(*(column[rows] for column in self._columns()))

    def followed_by(self, other: "SetRows") -> "SetRows":
        """These rows and others behind them."""
        pairs = zip(self._columns(), other._columns(), strict=True)
        return SetRows(*(np.concatenate(pair) for pair in pairs))

    def _columns(self) -> tuple[Any, ...]:
        return (self.tensor, self.ready_us, self.end_us, self.size_bytes, self.pause_us)


NO_ROWS = SetRows(np.empty(0, np.int32), *(np.empty(0, np.int64) for _ in range(4)))


class SetFilter:
    """Takes the reductions of a set out of all that come, in their order."""

    def __init__(self, in_set: Bools) -> None:
        self._in_set = in_set
        self._last_end_us: int | None = None

    def rows(self, part: Reductions) -> SetRows:
        """The reductions of the set in the next part."""
        if not len(part):
            return NO_ROWS
        last_end = np.maximum.accumulate(part.end_us)
        pause = np.zeros_like(part.ready_us)
        if self._last_end_us is not None:
            np.maximum(last_end, self._last_end_us, out=last_end)
            pause[0] = part.ready_us[0] - self._last_end_us
        np.subtract(part.ready_us[1:], last_end[:-1], out=pause[1:])
        self._last_end_us = int(last_end[-1])
        known = part.tensor < len(self._in_set)
        chosen = known & self._in_set[np.where(known, part.tensor, 0)]
        return SetRows(
            part.tensor[chosen],
            part.ready_us[chosen],
            part.end_us[chosen],
            part.size_bytes[chosen],
            pause[chosen],
        )


@dataclass(frozen=True, slots=True)
class FinishedRounds:
    """One row per round.

    Attributes:
        start_us: Where its first reduction began to be negotiated.
        end_us: Where its last operation ended.
        num_tensors: Different tensors in it.
        size_bytes: Their bytes, -1 where one of them is unknown.
        pause_us: The pause before its first reduction.
        longest_us: The longest pause before another one of its reductions.
    """

    start_us: Int64s
    end_us: Int64s
    num_tensors: Int64s
    size_bytes: Int64s
    pause_us: Int64s
    longest_us: Int64s

    def share_after_longest_pause(self, set_size: int) -> float:
        """The share of rounds that begin after the longest pause since the one before began."""
        if set_size == 1:
            return SINGLE_TENSOR
        if len(self.start_us) < 2:
            return 0.0
        return float(np.mean(self.pause_us[1:] > self.longest_us[:-1]))


class Rounds:
    """Cuts rows of the set into rounds.

    Args:
        first: The row at which the first round begins, from ``first_start``; what lies before it
            is an incomplete one.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._held = NO_ROWS
        self._pieces: list[FinishedRounds] = []

    def add(self, rows: SetRows) -> None:
        """Take the next rows of the set."""
        held = self._held.followed_by(rows)
        if self._first and len(held) > self._first:
            self._pieces.append(_measured(held.cut(slice(self._first)), [0]))
            held, self._first = held.cut(slice(self._first, None)), 0
        if len(held) and not self._first:
            *starts, last = _starts(_first_repeat_after(held.tensor), 0, len(held))
            if starts:
                self._pieces.append(_measured(held.cut(slice(last)), starts))
            held = held.cut(slice(last, None))
        self._held = held

    @property
    def starts_us(self) -> Int64s:
        """Where the rounds so far begin, that which is not over among them."""
        return np.concatenate(
            [*(piece.start_us for piece in self._pieces), self._held.ready_us[:1]]
        )

    def finished(self) -> FinishedRounds:
        """All rounds; nothing can be added after this."""
        if len(self._held):
            self._pieces.append(_measured(self._held, [0]))
            self._held = NO_ROWS
        columns = [
            [getattr(piece, name) for piece in self._pieces] for name in FinishedRounds.__slots__
        ]
        nothing = np.empty(0, dtype=np.int64)
        return FinishedRounds(*(np.concatenate([nothing, *pieces]) for pieces in columns))


def first_start(parts: Iterable[SetRows], set_size: int, *, is_all: bool = True) -> int | None:
    """The row at which the first round begins: of all at which it may, that which fits best.

    A recording that began within a step is aligned so that rounds are whole and begin after
    pauses. The first rounds from each row decide that, so only as many parts are taken.

    Args:
        parts: The rows of the set from the first on.
        set_size: Number of tensors in the set.
        is_all: The parts are all there are.

    Returns:
        ``None`` where more rows decide.
    """
    head, try_from = NO_ROWS, 0
    for rows in parts:
        head = head.followed_by(rows)
        if len(head) >= try_from:
            found = _best_start(head, set_size, is_all=False)
            if found is not None:
                return found
            try_from = 2 * len(head)
    return _best_start(head, set_size, is_all=is_all)


def _best_start(head: SetRows, set_size: int, *, is_all: bool) -> int | None:
    if not len(head):
        return 0 if is_all else None
    repeat = _first_repeat_after(head.tensor)
    best, best_fit = 0, -1.0
    for first in range(min(set_size, _STARTS_TO_TRY, len(head))):
        *starts, stop = [*_starts(repeat, first, _ROUNDS_TO_ALIGN), len(head)]
        if len(starts) == _ROUNDS_TO_ALIGN:
            stop = starts.pop()
        elif not is_all:
            return None
        fit = _fit(head.cut(slice(stop)), starts, set_size)
        if fit > best_fit + (_CLEARLY_BETTER if first else 0):
            best, best_fit = first, fit
    return best


def _fit(rows: SetRows, starts: list[int], set_size: int) -> float:
    rounds = _measured(rows.cut(slice(starts[0], None)), [start - starts[0] for start in starts])
    whole = float((rounds.num_tensors == set_size).mean())
    return whole * rounds.share_after_longest_pause(set_size)


def _measured(rows: SetRows, starts: list[int]) -> FinishedRounds:
    """The rounds that begin at some rows, of which the first is 0."""
    first = np.asarray(starts, dtype=np.int64)
    within = rows.pause_us.copy()
    within[first] = _NO_PAUSE
    known = np.minimum.reduceat(rows.size_bytes, first) >= 0
    return FinishedRounds(
        start_us=rows.ready_us[first],
        end_us=np.maximum.reduceat(rows.end_us, first),
        # No tensor comes twice in a round.
        num_tensors=np.diff(np.append(first, len(rows))),
        size_bytes=np.where(known, np.add.reduceat(rows.size_bytes, first), -1),
        pause_us=rows.pause_us[first],
        longest_us=np.maximum.reduceat(within, first),
    )


def _first_repeat_after(tensor: Int32s) -> Int64s:
    """For each row the first row by which some tensor has come twice since."""
    length = len(tensor)
    order = np.argsort(tensor, kind="stable")
    again = np.full(length, length, dtype=np.int64)
    same = tensor[order][1:] == tensor[order][:-1]
    again[order[:-1][same]] = order[1:][same]
    return np.minimum.accumulate(again[::-1])[::-1]


def _starts(repeat: Int64s, first: int, most: int) -> list[int]:
    starts: list[int] = []
    while first < len(repeat) and len(starts) < most:
        starts.append(first)
        first = int(repeat[first])
    return starts
