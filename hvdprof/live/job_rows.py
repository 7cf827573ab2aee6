"""The latest windows of a job as rows: own time and its parts by rank, and means over some."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof.live.e_detector import beyond_others
from hvdprof.live.job_windows import JobWindow
from hvdprof.live.rank_feed import PARTS

STORED, SHOWN = 320, 10
"""Rows: those in which an event may have begun, and those over which figures are means."""


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
