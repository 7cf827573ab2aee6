"""The rank that the others wait for in most of the waiting that no straggler explains.

Its delays fit no pattern: bursts in a third of few steps, for instance. They are no rotation then,
and the time that they take in a phase is not that of all ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.cell_causes import CellCause
from hvdprof.analyze.causes.delays import DATA
from hvdprof.analyze.causes.rank_delay import phase_times
from hvdprof.analyze.stats.distributions import binomial_tail
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.analyze.stragglers.delay import SMALLEST_SHARE, run_starts
from hvdprof.analyze.stragglers.named_cause import STRAGGLER
from hvdprof.analyze.stragglers.own_time import lateness_of, own_times
from hvdprof.model.arrays import Int64s

MOST_OF_LATENESS = 0.75
"""Share of the lateness of all ranks that is of the rank."""

LARGE_SHARE, LARGE_NOISES = 0.25, 8.0
"""A delay is an event from this share of the step and this multiple of the noise on: of the lower
quarter of the deviations, which bursts in half of the steps do not change."""

FEWEST_EVENTS, MOST_OF_EVENTS = 3, 0.8
"""Events of a launch or a cell below which none is the rank's, and its share of them."""

CHANCE = 0.01
"""The chance that any of equal ranks has as many, below which the rank is sure."""

TIMES_THE_OTHERS = 2.0
"""The time that the rank spends in a part against the median of the others; the excess is at least
5 % of the step."""

_QUARTER_OF_NORMAL = 0.31864
"""The lower quartile of the absolute value of a standard normal variable."""


@dataclass(frozen=True, slots=True)
class LateRank:
    """The rank, the parts of a step that are its alone, and whether that is beyond chance."""

    rank: int
    parts: frozenset[str]
    is_sure: bool

    @property
    def phase(self) -> str:
        """The part that it is alone in; empty where there are none or several."""
        return next(iter(self.parts)) if len(self.parts) == 1 else ""


def late_rank(
    works: Sequence[StepWork],
    named: Sequence[CellCause],
    phases_of: Mapping[str, Sequence[str]],
) -> LateRank | None:
    """The rank with at least 75 % of the lateness and 80 % of the events; None where there is none.

    An event is a delay of at least a quarter of the mean step, against the median of the other
    ranks and the rank's own; delays in steps in a row count once. The rank is sure where as many
    have a chance below 1 % if each event were of any rank alike (binomial, times the number of
    ranks). None where a straggler has a name, or another rank has long waits for data too.

    Args:
        works: The steps of each launch of the cell.
        named: The named causes of the cell.
        phases_of: The phases of each part of a step.
    """
    if not works or any(cause.kind == STRAGGLER for cause in named):
        return None
    num_ranks = len(works[0].ranks)
    if num_ranks < 2 or any(len(work.ranks) != num_ranks for work in works):
        return None
    late = [_late(work) for work in works]
    total = np.sum([np.clip(one, 0, None).sum(axis=0) for one in late], axis=0)
    events = np.sum([_events(one, work) for one, work in zip(late, works, strict=True)], axis=0)
    place, num_events = int(total.argmax()), int(events.sum())
    num_own = int(events[place])
    if total[place] < MOST_OF_LATENESS * total.sum() or num_events < FEWEST_EVENTS:
        return None
    if num_own < MOST_OF_EVENTS * num_events or any(_others_wait(place, one) for one in works):
        return None
    tail = float(binomial_tail(np.array([num_own]), num_events, 1 / num_ranks)[0])
    return LateRank(
        int(works[0].ranks[place]),
        frozenset(part for part, phases in phases_of.items() if _is_alone(place, works, phases)),
        num_ranks * tail <= CHANCE,
    )


def _late(work: StepWork) -> Times:
    """[steps, ranks] By how much a rank is later than the others, and than it usually is itself.

    One that is only later than a rank with a short step, such as the last batch, is not late.
    """
    spans = own_times(work)
    if not len(spans.length):
        return spans.length
    return np.minimum(lateness_of(work, spans), spans.length - np.median(spans.length, axis=0))


def _others_wait(place: int, work: StepWork) -> bool:
    """Whether another rank has long waits for data: which one is late then is that of a queue."""
    if not work.own.any():
        return False
    data = np.delete(phase_times(work)[DATA], place, axis=1)
    least = LARGE_SHARE * float(work.step_times.mean())
    return bool((data - np.median(data, axis=0) >= least).any())


def _events(late: Times, work: StepWork) -> Int64s:
    """[ranks] How many events each rank has in a launch."""
    if not len(late):
        return np.zeros(late.shape[1], dtype=np.int64)
    noise = float(np.quantile(np.abs(late), 0.25)) / _QUARTER_OF_NORMAL
    least = max(LARGE_SHARE * float(work.step_times.mean()), LARGE_NOISES * noise)
    return np.asarray(run_starts(late >= least).sum(axis=0))


def _is_alone(place: int, works: Sequence[StepWork], phases: Sequence[str]) -> bool:
    if not all(work.own.any() for work in works):
        return False
    times = [sum(phase_times(work)[phase].mean(axis=0) for phase in phases) for work in works]
    mean, step_ns = np.mean(times, axis=0), np.mean([work.step_times.mean() for work in works])
    others = float(np.median(np.delete(mean, place)))
    least = max((TIMES_THE_OTHERS - 1.0) * others, SMALLEST_SHARE * float(step_ns))
    return bool(mean[place] - others >= least)
