"""Sparse delays: pauses of all ranks, stalls of one rank or of ranks alike, of any rank at random.

A stall is an excess in few steps. Where it is far beyond the noise of the launch (definite), a few
are enough, and the tests only decide whether they are regular and whose they are. Smaller ones are
named where chance is ruled out that so many fall on one rank, or so regularly.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.distributions import binomial_tail, weighted_binomial_tail
from hvdprof.analyze.stats.regularity import LEAST_EVENTS, regularity
from hvdprof.analyze.steps.step_work import Times
from hvdprof.analyze.stragglers.delay import (
    LEVEL_OF_CAUSE,
    SMALLEST_SHARE,
    STEPS_APART,
    Delay,
    run_starts,
    scale_of,
)
from hvdprof.analyze.stragglers.named_cause import IRREGULAR, PAUSE, PERIODIC, STRAGGLER
from hvdprof.analyze.stragglers.own_time import lateness
from hvdprof.model.arrays import Bools, Int64s

SIGMAS = 5.0
"""Standard deviations of the noise from which an excess is a stall."""

DEFINITE_SIGMAS, DEFINITE_SHARE = 8.0, 0.25
"""Standard deviations, and share of the step, from which a stall is definite."""

CHANCE_OF_KIND = 1 / 16
"""Accepted chance that definite stalls are called regular, or one rank's, and are not.

That they exist is beyond doubt: this is no false alarm of a clean launch. Three stalls on one of
four ranks have it, and five on one of two. Fewer are named last, as those of any rank, unless one
rank had all of them or nearly all of their time.
"""

MOST_STEPS = 1 / 3
"""Share of steps with a stall of any rank, or a pause, up to which they are sparse."""

LONG_RUN = 8
"""Steps in a row that are no coincidence of one rank."""

LEAST_ALIKE = 0.6
"""Shared stalls of two ranks, of those of either, from which they stall together."""

LARGE_SHARE, LARGE_STEPS = 0.1, 3.0
"""Share of the launch, and size in steps, from which one or two stalls are named."""

MOST_OF_TIME = 0.8
"""Share of the time of all stalls from which they are those of one rank, beside a few others."""

CHANCE_OF_OWNER = 0.01
"""Of a rank with as much of the time where any rank stalls at random: it would be named wrongly."""

_MOST_LEVELS = 8


@dataclass(frozen=True, slots=True)
class _Excess:
    """[steps, ranks] Time above normal, and from when it is a stall and a definite one."""

    times: Times
    step_ns: float
    stall_ns: float
    definite_ns: float

    def thresholds(self) -> list[float]:
        """From the largest excess down by halves."""
        largest = float(self.times.max(initial=0.0))
        levels = largest / 2.0 ** np.arange(1, _MOST_LEVELS)
        return [float(level) for level in levels if level > self.stall_ns] + [self.stall_ns]


def pauses(length: Times, step_ns: float, steps: Int64s) -> Iterator[Delay]:
    """Pauses of all ranks at once: each takes far longer than it usually does.

    Args:
        length: [steps, ranks]
        step_ns: Mean step time.
        steps: [steps] Their numbers, in which a regular distance is looked for.
    """
    above = length - np.median(length, axis=0)
    # A tenth of the ranks may have escaped it.
    place = length.shape[1] // 10
    common = np.partition(above, place, axis=1)[:, place : place + 1]
    excess = _limits(common, scale_of(common), step_ns)
    long: Bools = np.asarray(common[:, 0] >= excess.stall_ns)
    for threshold in excess.thresholds():
        flags: Bools = np.asarray(common >= threshold)
        if flags.mean() > MOST_STEPS:
            return
        starts = np.flatnonzero(run_starts(flags, STEPS_APART[PAUSE])[:, 0])
        grid = regularity(starts, steps)
        is_definite = threshold >= excess.definite_ns
        limit = CHANCE_OF_KIND if is_definite else LEVEL_OF_CAUSE
        places = tuple(range(length.shape[1]))
        if grid is not None and grid.chance <= limit:
            on_grid = _runs_from(flags[:, 0], starts, grid.on_grid)
            yield Delay(
                PAUSE, places, PERIODIC, _of_all(_widened(on_grid, long), length), grid.period
            )
        elif is_definite and _are_enough(len(starts), flags, common, step_ns):
            yield Delay(PAUSE, places, IRREGULAR, _of_all(_widened(flags[:, 0], long), length))


def rank_stalls(length: Times, step_ns: float, steps: Int64s) -> Iterator[Delay]:
    """Stalls of one rank, or of ranks that stall together, in steps in which others do not.

    Args:
        length: [steps, ranks]
        step_ns: Mean step time.
        steps: [steps] Their numbers, in which a regular distance is looked for.
    """
    excess = _rank_excess(length, step_ns)
    for threshold in excess.thresholds():
        flags = excess.times >= threshold
        lower = excess.times >= max(threshold / 2, excess.stall_ns)
        starts, lower_starts = run_starts(flags), run_starts(lower)
        counts = starts.sum(axis=0)
        if not counts.any():
            continue
        # Of ranks with as many stalls, the one with the longer ones.
        total = np.where(flags, excess.times, 0.0).sum(axis=0)
        first = int(np.lexsort((total, counts))[-1])
        alike = _ranks_alike(flags, first)
        found = _of_ranks(excess, flags, lower_starts, alike, threshold, steps)
        if found is not None:
            yield found


def any_rank_stalls(length: Times, step_ns: float, steps: Int64s) -> Iterator[Delay]:
    """Definite stalls of any rank at random, or of the rank that had all or most of their time.

    Also the largest ones by themselves, where one rank had all of these: short stalls of any rank
    beside them do not make them anybody's.

    Args:
        length: [steps, ranks]
        step_ns: Mean step time.
        steps: [steps] Their numbers, in which a regular distance is looked for.
    """
    excess = _rank_excess(length, step_ns)
    larger = [threshold for threshold in excess.thresholds() if threshold > excess.definite_ns]
    for threshold in (*larger, excess.definite_ns):
        flags = excess.times >= threshold
        in_step: Bools = np.asarray(flags.any(axis=1))
        if not in_step.any() or in_step.mean() > MOST_STEPS:
            continue
        starts = np.flatnonzero(run_starts(in_step))
        if not _are_enough(len(starts), flags, excess.times, step_ns):
            continue
        lower = max(threshold / 2, excess.definite_ns)
        stalled = np.flatnonzero((excess.times >= lower).any(axis=0))
        is_of_one = len(stalled) == 1
        if threshold > excess.definite_ns and not is_of_one:
            continue
        owner = int(stalled[0]) if is_of_one else _owner(np.where(flags, excess.times, 0.0))
        if owner is not None and not is_of_one:
            flags = flags & (np.arange(length.shape[1]) == owner)
            in_step = flags[:, owner]
            starts = np.flatnonzero(run_starts(in_step))
        places = tuple(range(length.shape[1])) if owner is None else (owner,)
        grid = regularity(starts, steps)
        if grid is not None and grid.chance <= CHANCE_OF_KIND:
            on_grid = _runs_from(in_step, starts, grid.on_grid)
            yield Delay(STRAGGLER, places, PERIODIC, flags & on_grid[:, None], grid.period)
        else:
            yield Delay(STRAGGLER, places, IRREGULAR, flags)


def _owner(times: Times) -> int | None:
    """The rank with most of the time of stalls, beyond chance; None without one.

    Where any rank stalls at random, the rank of each stall is independent of its length.
    """
    of_rank = times.sum(axis=0)
    first = int(of_rank.argmax())
    share = float(of_rank[first] / of_rank.sum())
    if share < MOST_OF_TIME or np.count_nonzero(times[:, first]) < LEAST_EVENTS:
        return None
    num_ranks = times.shape[1]
    chance = num_ranks * weighted_binomial_tail(times[times > 0], share, 1 / num_ranks)
    return first if chance <= CHANCE_OF_OWNER else None


def _rank_excess(length: Times, step_ns: float) -> _Excess:
    late = lateness(length)
    # A rank that stalls in every second step is at its usual time in the other ones.
    above = length - np.quantile(length, 0.25, axis=0)
    lower = np.minimum(_lower_scale(late), _lower_scale(above))
    usual = np.minimum(scale_of(late), scale_of(above))
    times = np.minimum(late, above)
    return _limits(times, lower, step_ns, definite=usual)


def _limits(times: Times, scale: Times, step_ns: float, definite: Times | None = None) -> _Excess:
    noise = float(np.median(scale))
    usual = noise if definite is None else float(np.median(definite))
    stall_ns = max(SMALLEST_SHARE * step_ns, SIGMAS * noise)
    definite_ns = max(DEFINITE_SHARE * step_ns, DEFINITE_SIGMAS * usual, stall_ns)
    return _Excess(times, step_ns, stall_ns, definite_ns)


def _lower_scale(times: Times) -> Times:
    """Robust standard deviation from the lower quarter, which stalls do not widen."""
    lowest, low = np.quantile(times, (0.05, 0.25), axis=0)
    return np.asarray((low - lowest) / 0.971)


def _ranks_alike(flags: Bools, first: int) -> Bools:
    """[ranks] The ranks that stall in the same steps as ``first``, itself included."""
    own = flags[:, first : first + 1]
    both = (flags & own).sum(axis=0)
    either = (flags | own).sum(axis=0)
    return np.asarray(both >= LEAST_ALIKE * either)


def _of_ranks(
    excess: _Excess,
    flags: Bools,
    lower_starts: Bools,
    alike: Bools,
    threshold: float,
    steps: Int64s,
) -> Delay | None:
    num_ranks = flags.shape[1]
    num_alike = int(alike.sum())
    if 2 * num_alike > num_ranks:
        return None
    together: Bools = np.asarray(flags[:, alike].any(axis=1))
    starts = np.flatnonzero(run_starts(together))
    elsewhere = int(lower_starts[:, ~alike].sum())
    share = num_alike / num_ranks
    num = len(starts)
    chance = float(binomial_tail(np.array(num), num + elsewhere, share)) / share
    grid = regularity(starts, steps)
    places = tuple(int(place) for place in np.flatnonzero(alike))
    is_definite = threshold >= excess.definite_ns
    if is_definite:
        is_whose = chance <= (CHANCE_OF_KIND if not elsewhere else LEVEL_OF_CAUSE)
        is_regular = grid is not None and grid.chance <= CHANCE_OF_KIND
        # A checkpoint every 20 steps stays that of its rank beside stalls of any rank.
        is_certain = grid is not None and grid.chance * num_ranks <= LEVEL_OF_CAUSE
        is_whose |= is_regular and (is_certain or not elsewhere)
        is_named = is_whose and _are_enough(num, flags[:, alike], excess.times, excess.step_ns)
    else:
        is_regular = grid is not None and grid.chance * num_ranks <= LEVEL_OF_CAUSE
        is_named = is_regular or chance <= LEVEL_OF_CAUSE / _MOST_LEVELS
    is_named |= _longest(together) >= LONG_RUN and not elsewhere
    if not is_named:
        return None
    if is_regular and grid is not None:
        on_grid = _runs_from(together, starts, grid.on_grid)
        affected = flags & alike & on_grid[:, None]
        return Delay(STRAGGLER, places, PERIODIC, affected, grid.period)
    return Delay(STRAGGLER, places, IRREGULAR, np.asarray(flags & alike))


def _are_enough(num: int, flags: Bools, times: Times, step_ns: float) -> bool:
    """Whether so many definite stalls are named: three, or one that takes much of the launch."""
    if num >= LEAST_EVENTS:
        return True
    size = float(times.max(initial=0.0))
    total = float(times.max(axis=1)[flags.any(axis=1)].sum())
    return size >= LARGE_STEPS * step_ns and total >= LARGE_SHARE * step_ns * len(times)


def _longest(flags: Bools) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _runs_from(flags: Bools, starts: Int64s, chosen: Bools) -> Bools:
    """The true values from each chosen start up to the next start."""
    number = np.searchsorted(starts, np.arange(len(flags)), side="right")
    return np.asarray(flags & np.concatenate([[False], chosen])[number])


def _widened(events: Bools, long: Bools) -> Bools:
    """The events with the long steps right before and after them."""
    number = np.cumsum(run_starts(long))
    return np.asarray(events | (long & np.isin(number, number[events & long])))


def _of_all(flags: Bools, length: Times) -> Bools:
    return np.repeat(flags[:, None], length.shape[1], axis=1)
