"""Alignment of two sequences by their longest common subsequence, and its certain pairs.

A row of the table of lengths is stored as one bit per place where the length grows, in Python
integers: a row then costs a few operations on machine words (H. Hyyrö, Bit-parallel LCS-length
computation revisited, AWOCA 2004). Rows from the end are recomputed from stored checkpoints, so
that memory grows with the square root of the calls only.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Fits = Callable[[int], Bools]
"""For a kind of the left: mask of the members of the right that it can be paired with."""

MOST_CELLS = 40_000_000_000
"""Largest product of both lengths: 200,000 on both sides take half a minute."""

_MOST_MASKS = 1024


@dataclass(frozen=True, slots=True)
class Alignment:
    """Places of the pairs in every longest alignment, and the length of these alignments."""

    left: Ints
    right: Ints
    length: int


class Aligned:
    """Two sequences; ``length`` costs a third of ``certain``.

    Args:
        kinds: The kind of each member of the left.
        num_right: Number of members of the right.
        fits: For a kind, mask of the members of the right that it can be paired with.
    """

    def __init__(self, kinds: Sequence[int], num_right: int, fits: Fits) -> None:
        self._kinds = kinds
        self._num_right = num_right
        self._fits = fits
        self._full = (1 << num_right) - 1
        self._forward: dict[int, int] = {}
        self._backward: dict[int, int] = {}
        self._length: int | None = None

    @property
    def length(self) -> int:
        """Members in a longest alignment."""
        if self._length is None:
            (last,) = deque(self._rows(self._kinds, self._mask), maxlen=1) or (0,)
            self._length = last.bit_count()
        return self._length

    def certain(self) -> Alignment:
        """The pairs in every longest alignment.

        A pair is part of a longest alignment if the lengths before it, itself, and after it sum to
        the whole length; it is part of all of them if no other pair is at its place.
        """
        if self.length == len(self._kinds) == self._num_right:
            every = np.arange(self.length)
            return Alignment(every, every, self.length)
        found = np.zeros((3, self.length), dtype=np.int64)
        before = 0
        rows = self._rows(self._kinds, self._mask)
        for call, after in enumerate(self._after() if self.length else ()):
            places, others = self._on_path(call, before, after)
            # Not ``+=``: a member can take the same place with several members of the right.
            np.add.at(found[0], places, 1)
            found[1, places], found[2, places] = call, others
            before = next(rows)
        alone = found[0] == 1
        return Alignment(found[1, alone], found[2, alone], self.length)

    def _on_path(self, call: int, before: int, after: int) -> tuple[Ints, Ints]:
        """Places in a longest alignment that this member can take, and its partners on the right.

        A longest alignment omits so few members of either side that it stays near the diagonal.
        """
        start = max(0, call - (len(self._kinds) - self.length))
        end = min(self._num_right, call + self._num_right - self.length + 1)
        fitting = _bits(self._mask(self._kinds[call]), start, end)
        others = np.flatnonzero(fitting)
        if not len(others):
            return others, others
        place = _counted(before, start, end)[others]
        # Rows from the end also count the right from its end.
        mirrored = _counted(after, self._num_right - end, self._num_right - start)
        fits = place + 1 + mirrored[::-1][others] == self.length
        return place[fits], others[fits] + start

    def _after(self) -> Iterator[int]:
        """For each member of the left: the row of the alignment after it."""
        num = len(self._kinds)
        stride = max(math.isqrt(num), 1)
        backward = self._kinds[::-1]
        checkpoints = {0: 0}
        for number, row in enumerate(self._rows(backward, self._mirrored_mask), start=1):
            if number % stride == 0:
                checkpoints[number] = row
        # The row after the first of the left covers all others.
        for last in range((num - 1) // stride * stride, -1, -stride):
            part = backward[last : min(last + stride, num) - 1]
            rows = [checkpoints[last], *self._rows(part, self._mirrored_mask, checkpoints[last])]
            yield from reversed(rows)

    def _rows(
        self, kinds: Sequence[int], mask: Callable[[int], int], first: int = 0
    ) -> Iterator[int]:
        """After each member: bits where the length of the alignment grows along the right."""
        still = ~first & self._full
        for kind in kinds:
            grows = still & mask(kind)
            still = ((still + grows) | (still - grows)) & self._full
            yield ~still & self._full

    def _mask(self, kind: int) -> int:
        return _cached_mask(self._forward, kind, lambda: self._fits(kind))

    def _mirrored_mask(self, kind: int) -> int:
        return _cached_mask(self._backward, kind, lambda: self._fits(kind)[::-1])


def _cached_mask(masks: dict[int, int], kind: int, make: Callable[[], Bools]) -> int:
    mask = masks.get(kind)
    if mask is None:
        if len(masks) >= _MOST_MASKS:
            masks.clear()
        packed = np.packbits(make(), bitorder="little").tobytes()
        mask = masks[kind] = int.from_bytes(packed, "little")
    return mask


def _bits(row: int, start: int, end: int) -> npt.NDArray[np.uint8]:
    num = end - start
    window = (row >> start) & ((1 << num) - 1)
    packed = np.frombuffer(window.to_bytes((num + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=num, bitorder="little")


def _counted(row: int, start: int, end: int) -> Ints:
    """Number of set bits before each place of a part of a row."""
    counts = np.zeros(end - start, dtype=np.int64)
    np.cumsum(_bits(row, start, end)[:-1], out=counts[1:])
    return counts + (row & ((1 << start) - 1)).bit_count()
