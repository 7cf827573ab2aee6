"""The rank that spends more time than the others in the data phase, or outside all phases.

Such a rank may not be a straggler: noise of its other phases hides that it is late. What it spends
more than the others is taken out of the time of the normal ranks, and costs what the replayed step
loses without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.cell_causes import CellCause
from hvdprof.analyze.causes.delays import DATA, OUTSIDE
from hvdprof.analyze.causes.launch_scatter import LEVEL_OF_SCATTER, exceeds_scatter
from hvdprof.analyze.causes.rank_delay import RankDelay, phase_times
from hvdprof.analyze.ranks.delay import SMALLEST_SHARE
from hvdprof.analyze.ranks.events import MOST_OF_ALL
from hvdprof.analyze.ranks.named_cause import STRAGGLER, NamedCause
from hvdprof.analyze.ranks.own_time import BEFORE_UPDATE, OUTSIDE_PHASE, lateness
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.arrays import Bools
from hvdprof.model.cause_names import ranks_of

PHASES_OF: Mapping[str, tuple[str, ...]] = {DATA: (DATA,), OUTSIDE: (OUTSIDE_PHASE, BEFORE_UPDATE)}
"""The phases of the parts of a step in which one rank alone is looked for."""

SHARE_OF_LAUNCHES = 0.5
"""The rank exceeds the others significantly in at least this share of the launches."""


@dataclass(frozen=True, slots=True)
class RankAlone:
    """A rank that spends more than the others in a part (DATA or OUTSIDE).

    ``delays`` are those of each launch, one for each phase of the part.
    """

    rank: int
    part: str
    delays: tuple[tuple[RankDelay, ...], ...]


def ranks_alone(works: Sequence[StepWork], named: Sequence[CellCause]) -> tuple[RankAlone, ...]:
    """The ranks that exceed the others, at most one for each of DATA and OUTSIDE.

    A rank exceeds them by the median of the other ranks in the same step. On average that is at
    least 5 % of the step, above 0 in half of the launches, and beyond the scatter of launches
    (``launch_scatter``). No straggler with a name is such a rank. Those that last are none of the
    others either, and steps in which another cause acts do not count.

    Args:
        works: The steps of each launch of the cell.
        named: The named causes of the cell.
    """
    if not all(work.own.any() for work in works):
        return ()
    events = [
        [member for cause in named for member in cause.members[number]]
        for number in range(len(works))
    ]
    lasting = np.any([_lasts(own, work) for own, work in zip(events, works, strict=True)], axis=0)
    if (~lasting).sum() < 2:
        return ()
    taken = [rank for cause in named for rank in ranks_of({"ranks": cause.ranks})]
    candidates = ~lasting & ~np.isin(works[0].ranks, taken)
    found = (
        _rank_alone(part, works, [_Free(lasting, own) for own in events], candidates)
        for part in PHASES_OF
    )
    return tuple(rank for rank in found if rank is not None)


@dataclass(frozen=True, slots=True)
class _Free:
    """What is compared in a launch: all but ``lasting`` ranks, in steps without ``events``."""

    lasting: Bools
    events: Sequence[NamedCause]

    def excess(self, times: Times) -> Times:
        """[steps, ranks] Over the median of the other ranks; NaN where nothing is compared."""
        own = ~self.lasting
        excess = np.full_like(times, NAN)
        excess[:, own] = lateness(times[:, own])
        for event in self.events:
            excess[event.affected[:, own].any(axis=1)] = NAN
        return excess


def _lasts(events: Sequence[NamedCause], work: StepWork) -> Bools:
    """[ranks] Whether a straggler of this rank acts in most steps."""
    found = np.zeros(len(work.ranks), dtype=bool)
    for event in events:
        if event.kind == STRAGGLER:
            found |= event.affected.mean(axis=0) > MOST_OF_ALL
    return found


def _rank_alone(
    part: str,
    works: Sequence[StepWork],
    free: Sequence[_Free],
    candidates: Bools,
) -> RankAlone | None:
    phases = [
        [own.excess(phase_times(work)[phase]) for phase in PHASES_OF[part]]
        for work, own in zip(works, free, strict=True)
    ]
    whole = [np.sum(phase, axis=0) for phase in phases]
    if not all((~np.isnan(excess)).any(axis=0)[candidates].all() for excess in whole):
        return None
    late = np.array(
        [_means(one) / work.step_times.mean() for one, work in zip(whole, works, strict=True)]
    )
    place = int(np.where(candidates, late.mean(axis=0), -np.inf).argmax())
    if not candidates[place] or late[:, place].mean() < SMALLEST_SHARE:
        return None
    level = LEVEL_OF_SCATTER / len(candidates)
    exceeds = [above_zero(excess[~np.isnan(excess[:, place]), place], level) for excess in whole]
    if np.mean(exceeds) < SHARE_OF_LAUNCHES:
        return None
    if len(works) > 1 and not exceeds_scatter(late, [place]):
        return None
    delays = tuple(
        tuple(
            RankDelay(place, phase, _filled(excess[:, place]))
            for phase, excess in zip(PHASES_OF[part], of_launch, strict=True)
        )
        for of_launch in phases
    )
    return RankAlone(int(works[0].ranks[place]), part, delays)


def _means(excess: Times) -> Times:
    """[ranks] Means of what is compared; 0 where nothing is."""
    num = np.maximum((~np.isnan(excess)).sum(axis=0), 1)
    return np.asarray(np.nansum(excess, axis=0) / num)


def _filled(excess: Times) -> Times:
    """The excess of a rank, its mean where nothing is compared: a rare cause hides a steady one."""
    return np.where(np.isnan(excess), np.nanmean(excess), excess)
