"""Two sequences aligned by their longest common subsequence, and which of its pairs are certain.

A row of the table of lengths is kept as one bit for each place where the length grows, in whole
numbers of Python: a row then costs a few operations on machine words (H. Hyyrö, Bit-parallel
LCS-length computation revisited, AWOCA 2004). Rows from the end are made again from one in every so
many that are kept, so that memory grows with the square root of the calls only.
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
"""For a kind of the left: which members of the right it may stand beside."""

MOST_CELLS = 40_000_000_000
"""Product of both lengths that is aligned: 200,000 of either side take half a minute."""

_MOST_MASKS = 1024


@dataclass(frozen=True, slots=True)
class Alignment:
    """Places of the pairs that every longest alignment has, and the length of those."""

    left: Ints
    right: Ints
    length: int


class Aligned:
    """Two sequences; ``length`` costs a third of ``certain``.

    Args:
        kinds: The kind of each member of the left.
        num_right: How many the right has.
        fits: For a kind, which of the right it may stand beside.
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
        """The pairs that every longest alignment has.

        A pair lies on a longest alignment where what fits before it, itself and what fits after it
        make up the whole length; it lies on all of them where no other is at its place.
        """
        if self.length == len(self._kinds) == self._num_right:
            every = np.arange(self.length)
            return Alignment(every, every, self.length)
        found = np.zeros((3, self.length), dtype=np.int64)
        before = 0
        rows = self._rows(self._kinds, self._mask)
        for call, after in enumerate(self._after() if self.length else ()):
            places, others = self._on_path(call, before, after)
            # Not ``+=``: a member can take the same place beside several of the right.
            np.add.at(found[0], places, 1)
            found[1, places], found[2, places] = call, others
            before = next(rows)
        alone = found[0] == 1
        return Alignment(found[1, alone], found[2, alone], self.length)

    def _on_path(self, call: int, before: int, after: int) -> tuple[Ints, Ints]:
        """Places in a longest alignment that this member can take, and with which of the right.

        A longest alignment leaves out so few of either side that it stays near the diagonal.
        """
        start = max(0, call - (len(self._kinds) - self.length))
        end = min(self._num_right, call + self._num_right - self.length + 1)
        fitting = _bits(self._mask(self._kinds[call]), start, end)
        others = np.flatnonzero(fitting)
        if not len(others):
            return others, others
        place = _counted(before, start, end)[others]
        # Rows from the end count the right from its end too.
        mirrored = _counted(after, self._num_right - end, self._num_right - start)
        fits = place + 1 + mirrored[::-1][others] == self.length
        return place[fits], others[fits] + start

    def _after(self) -> Iterator[int]:
        """For each of the left: the row of what can be aligned behind it."""
        num = len(self._kinds)
        stride = max(math.isqrt(num), 1)
        backward = self._kinds[::-1]
        kept = {0: 0}
        for number, row in enumerate(self._rows(backward, self._mirrored_mask), start=1):
            if number % stride == 0:
                kept[number] = row
        # The row behind the first of the left is that of all others.
        for last in range((num - 1) // stride * stride, -1, -stride):
            part = backward[last : min(last + stride, num) - 1]
            rows = [kept[last], *self._rows(part, self._mirrored_mask, kept[last])]
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
        return _kept(self._forward, kind, lambda: self._fits(kind))

    def _mirrored_mask(self, kind: int) -> int:
        return _kept(self._backward, kind, lambda: self._fits(kind)[::-1])


def _kept(masks: dict[int, int], kind: int, make: Callable[[], Bools]) -> int:
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
    """How many bits stand before each place of a part of a row."""
    counts = np.zeros(end - start, dtype=np.int64)
    np.cumsum(_bits(row, start, end)[:-1], out=counts[1:])
    return counts + (row & ((1 << start) - 1)).bit_count()
