"""The windows of all ranks brought together, and the latest as rows: own time, its parts, means.

Windows of different ranks nest (``collect.steps.step_sums``). Those between two ends that all
ranks share are added up, and short ones further, to about ``LEAST_NS``: the test counts windows.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof.live.e_detector import beyond_others
from hvdprof.live.rank_feed import PARTS, RankWindow

LEAST_NS = 900_000_000

STORED, SHOWN = 320, 10
"""Rows: those in which an event may have begun, and those over which figures are means."""


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The same steps on every rank that takes part, by rank."""

    ranks: Mapping[int, RankWindow]

    @property
    def any_rank(self) -> RankWindow:
        """The window of the lowest rank: segment, steps and flags are those of all."""
        return self.ranks[min(self.ranks)]

    @property
    def is_counted(self) -> bool:
        """Whether its steps are neither warm-up nor hold an evaluation."""
        return not any(one.warmup or one.evaluates for one in self.ranks.values())

    @property
    def step_ns(self) -> float:
        """Mean length of a step over the ranks, ns."""
        lengths = [one.length_ns / one.num_steps for one in self.ranks.values()]
        return sum(lengths) / len(lengths)


class JobWindows:
    """Takes the windows of single ranks in any order."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[RankWindow]] = {}
        self._open: dict[int, RankWindow] | None = None
        self._segments: dict[str, int] = {}

    def add(self, rank: int, windows: list[RankWindow]) -> None:
        """Take further windows of a rank."""
        self._waiting.setdefault(rank, deque()).extend(windows)
        for window in windows:
            self._segments.setdefault(window.segment, len(self._segments))

    def leave_out(self, rank: int) -> None:
        """Wait no more for a rank, until it records again."""
        self._waiting.pop(rank, None)
        self._open = None

    @property
    def ranks(self) -> set[int]:
        """The ranks that take part."""
        return set(self._waiting)

    def finished(self, num_ranks: int) -> list[JobWindow]:
        """The windows that are complete; none before ``num_ranks`` ranks have recorded."""
        found: list[JobWindow] = []
        if len(self._waiting) < num_ranks or not self._waiting:
            return found
        while (shared := self._next()) is not None:
            self._join(shared, found)
        return found

    def _next(self) -> dict[int, RankWindow] | None:
        """The shortest windows of the same steps; None where a rank has not recorded its own."""
        while all(self._waiting.values()):
            heads = {rank: queue[0] for rank, queue in self._waiting.items()}
            if self._drop_other_begins(heads):
                continue
            end = max(window.last for window in heads.values())
            taken: dict[int, int] = {}
            for rank, queue in self._waiting.items():
                number = _reaching(queue, end)
                if number == 0:
                    return None
                taken[rank] = number
            ends = {self._waiting[rank][number - 1].last for rank, number in taken.items()}
            if ends == {end}:
                return {rank: _summed(self._waiting[rank], taken[rank]) for rank in taken}
            self._merge_heads(taken)
        return None

    def _drop_other_begins(self, heads: Mapping[int, RankWindow]) -> bool:
        """Drop the windows of ranks that are behind the begin that all can share."""
        newest = max((one.segment for one in heads.values()), key=self._segments.__getitem__)
        behind = [rank for rank, window in heads.items() if window.segment != newest]
        if not behind:
            first = max(window.first for window in heads.values())
            behind = [rank for rank, window in heads.items() if window.first < first]
        for rank in behind:
            self._waiting[rank].popleft()
        return bool(behind)

    def _merge_heads(self, taken: Mapping[int, int]) -> None:
        for rank, number in taken.items():
            queue = self._waiting[rank]
            queue.appendleft(_summed(queue, number))

    def _join(self, shared: dict[int, RankWindow], found: list[JobWindow]) -> None:
        is_apart = any(one.warmup or one.evaluates for one in shared.values())
        before, self._open = self._open, None
        if before is not None:
            one, other = next(iter(before.values())), next(iter(shared.values()))
            follows = one.segment == other.segment and one.last + 1 == other.first
            if is_apart or not follows or before.keys() != shared.keys():
                found.append(JobWindow(before))
            else:
                for rank, window in shared.items():
                    before[rank].add(window)
                shared = before
        if is_apart or max(one.length_ns for one in shared.values()) >= LEAST_NS:
            found.append(JobWindow(shared))
        else:
            self._open = shared


def _reaching(queue: "deque[RankWindow]", end: int) -> int:
    """How many windows reach a step; 0 where they do not."""
    for number, window in enumerate(queue, start=1):
        if window.last >= end:
            return number
    return 0


def _summed(queue: "deque[RankWindow]", number: int) -> RankWindow:
    first = queue.popleft()
    for _ in range(number - 1):
        first.add(queue.popleft())
    return first


@dataclass(frozen=True, slots=True)
class JobRow:
    """A counted window; times in ns per step, ``end_s`` on the wall clock of a rank.

    ``own`` and ``parts`` lack ranks whose waits are unseen. ``blocked`` is the least wait of all
    ranks, ``data`` the least time in data (both NaN with unseen waits).
    """

    first: int
    last: int
    end_s: float
    step: float
    samples_per_s: float
    own: Mapping[int, float]
    parts: Mapping[int, Sequence[float]]
    blocked: float
    data: float
    slowest: int
    lead: float
    """The rank with the longest own time, and by how much it is longer than the next."""
    common: float
    """The step if the slowest rank took no longer than the median rank; the step where unseen."""

    @classmethod
    def of(cls, window: JobWindow) -> "JobRow":
        """The row of a window."""
        parts = {
            rank: [time / one.num_steps for time in one.own]
            for rank, one in window.ranks.items()
            if one.own is not None
        }
        own = {rank: sum(times) for rank, times in parts.items()}
        is_seen = len(own) == len(window.ranks)
        step, any_rank = window.step_ns, window.any_rank
        lengths = {rank: one.length_ns / one.num_steps for rank, one in window.ranks.items()}
        waits = [lengths[rank] - own[rank] for rank in own]
        samples = sum(one.samples for one in window.ranks.values())
        ordered = sorted(own, key=own.__getitem__)
        late = own[ordered[-1]] - own[ordered[(len(ordered) - 1) // 2]] if ordered else 0.0
        return cls(
            first=any_rank.first,
            last=any_rank.last,
            end_s=any_rank.wall_ns / 1e9,
            step=step,
            samples_per_s=samples * 1e9 / (step * any_rank.num_steps),
            own=own,
            parts=parts,
            blocked=max(min(waits), 0.0) if is_seen else math.nan,
            data=min(times[0] for times in parts.values()) if is_seen else math.nan,
            slowest=ordered[-1] if ordered else -1,
            lead=own[ordered[-1]] - own[ordered[-2]] if len(ordered) > 1 else 0.0,
            common=step - late,
        )

    def cost_of(self, rank: int) -> float:
        """What a step would be shorter if the rank took no longer than the next slowest."""
        return self.lead if rank == self.slowest else 0.0


@dataclass(slots=True)
class JobRows:
    """The latest rows, and sums over the last ``SHOWN`` of them."""

    rows: deque[JobRow] = field(default_factory=lambda: deque(maxlen=STORED))
    _parts: dict[int, list[float]] = field(default_factory=dict)
    _costs: dict[int, float] = field(default_factory=dict)

    def add(self, row: JobRow, *, is_segment: bool = False) -> bool:
        """Take a row; whether those before are dropped: of other ranks, or another segment."""
        is_new = bool(self.rows) and (is_segment or self.rows[-1].own.keys() != row.own.keys())
        if is_new:
            self.rows.clear()
            self._parts.clear()
            self._costs.clear()
        if len(self.rows) >= SHOWN:
            self._count(self.rows[-SHOWN], -1)
        self.rows.append(row)
        self._count(row, 1)
        return is_new

    def _count(self, row: JobRow, sign: int) -> None:
        for rank, times in row.parts.items():
            sums = self._parts.get(rank)
            if sums is None:
                sums = self._parts[rank] = [0.0] * len(PARTS)
            for place, time in enumerate(times):
                sums[place] += sign * time
        if row.lead:
            self._costs[row.slowest] = self._costs.get(row.slowest, 0.0) + sign * row.lead

    def latest(self, number: int) -> list[JobRow]:
        """The last rows, that many at most."""
        return list(self.rows)[-number:]

    @property
    def num_shown(self) -> int:
        """Rows over which the figures are means."""
        return min(len(self.rows), SHOWN)

    def lateness(self) -> dict[int, tuple[float, str, float]]:
        """Over the shown rows, by rank: lateness, phase of most of it, cost; ns per step."""
        number = max(self.num_shown, 1)
        late = beyond_others({rank: sum(times) / number for rank, times in self._parts.items()})
        of_parts = [
            beyond_others({rank: times[place] / number for rank, times in self._parts.items()})
            for place in range(len(PARTS))
        ]
        found = {}
        for rank, time in late.items():
            place = max(range(len(PARTS)), key=lambda one: of_parts[one][rank])
            cost = max(self._costs.get(rank, 0.0), 0.0) / number
            found[rank] = (time, PARTS[place] if time > 0 else "", cost)
        return found


def late_phase(rank: int, rows: Sequence[JobRow]) -> tuple[str, float]:
    """The phase in which most of a rank's lateness in some rows lies, and its lateness, ns."""
    late = [
        mean(
            [
                beyond_others({one: times[place] for one, times in row.parts.items()}).get(rank, 0)
                for row in rows
            ]
        )
        for place in range(len(PARTS))
    ]
    whole = mean([beyond_others(row.own).get(rank, 0.0) for row in rows])
    return PARTS[max(range(len(PARTS)), key=late.__getitem__)], whole


def mean(values: Sequence[float]) -> float:
    """The mean of some values, NaN without any."""
    return sum(values) / len(values) if values else math.nan
