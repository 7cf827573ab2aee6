"""The intervals in view: busy time by bin, their number, and the intervals themselves.

A figure shows about two thousand pixels for any number of events, so the cost of a view is that of
its pixels: one binary search per edge of a bin, over a running sum of busy time. All lanes are
placed behind each other on one long axis (lane and category times a span): one search serves all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_MOST_CELLS = 240_000
_MOST_BINS = 1_500
_FEWEST_BINS = 200


@dataclass(frozen=True, slots=True)
class Bins:
    """A view in bins: ``edges_ns`` [bins + 1] and ``busy`` [lanes, categories, bins], 0 to 1.

    ``busy`` is the share of the bin in which at least one event of the category is on.
    """

    edges_ns: Ints
    busy: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SomeSpans:
    """Single intervals: row as given to ``Spans``, lane, category, start and end in ns."""

    row: Ints
    lane: Ints
    category: Ints
    start_ns: Ints
    end_ns: Ints


class Spans:
    """Intervals by lane and category, sorted once so that any view of them is cheap.

    Args:
        lane: Number of the lane of each interval, from 0.
        category: Number of its category, from 0.
        start_ns: Start, ns.
        end_ns: End, ns; not before the start.
        shape: How many lanes and how many categories there are.
        row: The number of each interval in its table; its position by default.
    """

    def __init__(
        self,
        lane: NDArray[np.integer],
        category: NDArray[np.integer],
        start_ns: Ints,
        end_ns: Ints,
        shape: tuple[int, int],
        row: NDArray[np.integer] | None = None,
    ) -> None:
        self.num_lanes, self.num_categories = shape
        self.first_ns = int(start_ns.min()) if len(start_ns) else 0
        self.last_ns = int(end_ns.max()) if len(end_ns) else 0
        self._span = self.last_ns - self.first_ns + 2
        offset = lane.astype(np.int64) * self.num_categories + category
        self._is_known = np.zeros(self.num_lanes * self.num_categories, bool)
        self._is_known[offset] = True
        # In place: each array of so many rows takes tens of megabytes.
        offset *= self._span
        offset -= self.first_ns
        offset += start_ns
        # 32 bits: a pass has fewer rows.
        order = np.argsort(offset, kind="stable").astype(np.int32)
        self._row = order if row is None else row[order].astype(np.int32)
        self._start = offset[order]
        offset -= start_ns
        offset += end_ns
        self._end = offset[order]
        del offset, order
        # The latest end so far: intervals before the first that exceeds a time have ended by then.
        in_order = bool(np.all(self._end[1:] >= self._end[:-1]))
        self._sorted_end = self._end if in_order else np.sort(self._end)
        self._reach = self._end if in_order else np.maximum.accumulate(self._end)
        # Busy time before the start of each interval; overlapping ones are one span of it.
        self._busy = np.zeros(len(self._start), np.int64)
        if len(self._start):
            busy = self._busy[1:]
            np.minimum(self._start[1:], self._reach[:-1], out=busy)
            busy -= self._start[:-1]
            np.cumsum(busy, out=busy)

    @property
    def nbytes(self) -> int:
        """Bytes that all arrays take."""
        arrays = {id(array): array.nbytes for array in vars(self).values() if _is_array(array)}
        return sum(arrays.values())

    def __len__(self) -> int:
        return len(self._start)

    def categories(self) -> Ints:
        """Numbers of the categories that at least one interval has, ascending."""
        known = self._is_known.reshape(self.num_lanes, self.num_categories)
        return np.flatnonzero(known.any(axis=0))

    def bins(self, first_ns: int, last_ns: int, lanes: Ints, *, most: int = _MOST_BINS) -> Bins:
        """Busy shares of the lanes between two times, in bins of equal length.

        Args:
            first_ns: Start of the view.
            last_ns: End of the view, after its start.
            lanes: Numbers of the lanes in view, in the order of the result.
            most: Largest number of bins; fewer for many lanes, because a screen has a limited
                number of pixels, and never shorter than a nanosecond.
        """
        number = int(min(most_bins(len(lanes), most), max(last_ns - first_ns, 1)))
        edges = first_ns + np.arange(number + 1, dtype=np.int64) * (last_ns - first_ns) // number
        return self.bins_between(edges, lanes)

    def bins_between(self, edges: Ints, lanes: Ints) -> Bins:
        """Busy shares of the lanes between neighbouring edges, ns, which ascend."""
        groups = self._groups(lanes)
        number = len(edges) - 1
        busy = np.zeros((len(groups), number))
        # Most lanes know a few of the categories only.
        known = self._is_known[groups]
        total = self._busy_before(groups[known], edges)
        busy[known] = np.diff(total, axis=1) / np.diff(edges)
        return Bins(edges, busy.reshape(len(lanes), self.num_categories, number))

    def count(self, first_ns: int, last_ns: int, lanes: Ints) -> int:
        """Number of intervals of the lanes that lie at least partly between two times."""
        groups = self._groups(lanes)
        started = np.searchsorted(self._start, self._at(groups, last_ns), side="left")
        ended = np.searchsorted(self._sorted_end, self._at(groups, first_ns), side="right")
        return int((started - ended).clip(min=0).sum())

    def within(self, first_ns: int, last_ns: int, lanes: Ints) -> SomeSpans:
        """The intervals that lie at least partly between two times, in the order of their rows.

        The cost is proportional to the number of returned intervals.
        """
        if not len(self._start):
            nothing = np.empty(0, np.int64)
            return SomeSpans(nothing, nothing, nothing, nothing, nothing)
        groups = self._groups(lanes)
        after = self._at(groups, first_ns)
        stop = np.searchsorted(self._start, self._at(groups, last_ns), side="left")
        first = np.searchsorted(self._reach, after, side="right")
        found = _ranges(first, np.maximum(stop, first))
        limits = np.repeat(after, np.maximum(stop - first, 0))
        found = found[self._end[found] > limits]
        found = found[np.argsort(self._row[found])]
        group, start = np.divmod(self._start[found], self._span)
        lane, category = np.divmod(group, self.num_categories)
        end = self._end[found] - group * self._span
        row = self._row[found].astype(np.int64)
        return SomeSpans(row, lane, category, start + self.first_ns, end + self.first_ns)

    def longest(self, first_ns: int, last_ns: int, lanes: Ints, category: int) -> int | None:
        """Row of the longest interval of a category that lies at least partly between two times.

        ``None`` where the lanes have none there.
        """
        groups = lanes * self.num_categories + category
        groups = groups[self._is_known[groups]]
        first = np.searchsorted(self._reach, self._at(groups, first_ns), side="right")
        stop = np.searchsorted(self._start, self._at(groups, last_ns), side="left")
        found: tuple[int, int] | None = None
        for low, high in zip(first, stop, strict=True):
            if high <= low:
                continue
            # Those between that have ended before are nested in a longer one, which has not.
            lengths = self._end[low:high] - self._start[low:high]
            place = int(lengths.argmax())
            if found is None or lengths[place] > found[0]:
                found = int(lengths[place]), int(self._row[low + place])
        return None if found is None else found[1]

    def where(self, row: int) -> int | None:
        """The lane of the interval of that row; ``None`` where there is none."""
        places = np.flatnonzero(self._row == row)
        if not len(places):
            return None
        return int(self._start[places[0]]) // self._span // self.num_categories

    def _groups(self, lanes: Ints) -> Ints:
        categories = np.arange(self.num_categories, dtype=np.int64)
        groups: Ints = (lanes[:, None] * self.num_categories + categories).ravel()
        return groups

    def _at(self, groups: Ints, time_ns: int) -> Ints:
        inside = min(max(time_ns - self.first_ns, 0), self._span - 1)
        times: Ints = groups * self._span + inside
        return times

    def _busy_before(self, groups: Ints, edges: Ints) -> Ints:
        """Busy time on the long axis before each edge of each group, [groups, edges]."""
        if not len(self._start):
            return np.zeros((len(groups), len(edges)), np.int64)
        inside = np.clip(edges - self.first_ns, 0, self._span - 1)
        asked = (groups[:, None] * self._span + inside).ravel()
        latest = np.searchsorted(self._start, asked, side="right") - 1
        known = np.maximum(latest, 0)
        partly = np.minimum(asked, self._reach[known]) - self._start[known]
        total: Ints = np.where(latest >= 0, self._busy[known] + partly, 0)
        return total.reshape(len(groups), len(edges))


def most_bins(num_lanes: int, most: int) -> int:
    """How many bins of so many lanes are drawn at most."""
    return min(most, max(_FEWEST_BINS, _MOST_CELLS // max(num_lanes, 1)))


def _ranges(first: Ints, stop: Ints) -> Ints:
    """The whole numbers of all ranges, one after the other."""
    lengths = stop - first
    total = int(lengths.sum())
    shift = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    numbers: Ints = np.arange(total, dtype=np.int64) + shift
    return numbers


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
