"""Delays that stand out step by step: pauses of all ranks; stalls of a rank, ranks alike, or any.

An event is an excess far beyond the noise of the launch; clean launches have none. That it exists
is beyond doubt: what is judged is whose the events are, and whether they are regular.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.ranks.account import costs_of
from hvdprof.analyze.ranks.chances import chances_of_events
from hvdprof.analyze.ranks.named_cause import (
    FALSE_ALARMS,
    PAUSE,
    SMALLEST_SHARE,
    STRAGGLER,
    Delay,
    noise_of,
    of_all,
    quartile_noise,
    run_starts,
    saving,
    without,
)
from hvdprof.analyze.stats.regularity import LEAST_EVENTS, Regularity, regularity
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools, Int64s

EVENT_SIGMAS, EVENT_SHARE = 8.0, 0.25
"""Standard deviations of the noise, and share of the step, from which an excess is an event."""

MOST_OF_RANK = 0.5
"""Share of its steps up to which a rank has events; with more, it is slower on average."""

MOST_OF_ALL = 1 / 3
"""Share of steps up to which pauses, and stalls of any rank, are events."""

CHANCE_OF_KIND = 1 / 16
"""Accepted chance that events are called regular, or one rank's, and are not."""

CHANCE_OF_OWNER, MOST_OF_TIME = 0.01, 0.8
"""Chance below which events are one rank's beside those of others, and its share of their time."""

CERTAIN = FALSE_ALARMS / 6
"""Chance below which neither other events nor their small size matter."""

LEAST_ALIKE = 0.6
"""Shared events of two ranks, of those of either, from which they stall together."""

LONG_RUN = 5
"""Steps in a row that are no single event."""

LARGE_SHARE, LARGE_STEPS = 0.1, 3.0
"""Share of the launch, and size in steps, from which one or two events are named."""

NEARLY = 0.8
"""Share of the largest saving from which regular events go before others."""

MOST_SEARCHES, _MOST_LEVELS = 8, 8


@dataclass(frozen=True, slots=True)
class Series:
    """The steps in which events are looked for.

    Attributes:
        step_ns: The mean step time.
        numbers: [steps] Their numbers, in which a regular distance is looked for.
    """

    step_ns: float
    numbers: Int64s

    def grid(self, starts: Bools) -> Regularity | None:
        """The regular distance of events that start in these steps."""
        return regularity(np.flatnonzero(starts), self.numbers)


def pauses(common: Times, num_ranks: int, series: Series) -> list[Delay]:
    """Pauses of all ranks, the most expensive first: a shared time far longer than usual.

    Args:
        common: [steps] What the ranks share, or the time of the only rank.
        num_ranks: Number of ranks.
        series: The steps.
    """
    rest = (common - np.median(common))[:, None]
    found: list[Delay] = []
    for _ in range(MOST_SEARCHES):
        of_launch = _most_expensive(rest, list(_pauses(rest, series)))
        if of_launch is None or saving(rest, of_launch) < SMALLEST_SHARE * series.step_ns:
            break
        found.append(of_launch)
        rest = without(rest, of_launch)
    everyone = tuple(range(num_ranks))
    return [
        Delay(PAUSE, everyone, of_all(one.affected[:, 0], num_ranks), True, period=one.period)
        for one in found
    ]


def _pauses(above: Times, series: Series) -> Iterator[Delay]:
    least, definite = _limits(quartile_noise(above), series)
    long: Bools = np.asarray(above[:, 0] >= least)
    for threshold in _thresholds(above, least):
        flags: Bools = np.asarray(above[:, 0] >= threshold)
        if flags.mean() > MOST_OF_ALL:
            return
        starts = run_starts(flags, 2)
        grid = series.grid(starts)
        is_definite = threshold >= definite
        if grid is not None and grid.chance <= (CHANCE_OF_KIND if is_definite else CERTAIN):
            chosen = _widened(runs_from(flags, starts, grid.on_grid), long)
            yield Delay(PAUSE, (0,), chosen[:, None], True, period=grid.period)
        elif is_definite and _are_enough(flags, above, series.step_ns):
            yield Delay(PAUSE, (0,), _widened(flags, long)[:, None], True)


def rank_events(excess: Times, series: Series) -> tuple[list[Delay], Times]:
    """The events of ranks, as found, and [steps, ranks, phases] the excess without them.

    Args:
        excess: [steps, ranks, phases]
        series: The steps.
    """
    # What a rank is later by in three of four steps is no event, and no part of one.
    usual = np.quantile(excess, 0.25, axis=0)
    usual[usual.sum(axis=1) < SMALLEST_SHARE * series.step_ns] = 0.0
    rest = excess - usual
    found: list[Delay] = []
    least_ns = SMALLEST_SHARE * series.step_ns
    for _ in range(MOST_SEARCHES):
        total = rest.sum(axis=2)
        stall = _most_expensive(total, list(_stalls(rest, series)))
        if stall is None or saving(total, stall) < least_ns:
            stall = _of_any_rank(rest, series)
            if stall is None or saving(total, stall) < least_ns:
                break
        found.append(stall)
        rest = _taken(rest, stall)
    # Events without an owner weigh no more than the smallest one: their number may be chance.
    total = rest.sum(axis=2)
    _, definite = _limits(noise_of(total), series)
    left = (total >= definite) & ((total >= definite).mean(axis=0) <= MOST_OF_RANK)
    rest[left] *= (definite / total[left])[:, None]
    return found, rest + usual


def _taken(excess: Times, delay: Delay) -> Times:
    """The excess without the events of a delay, in proportion over the phases."""
    total = excess.sum(axis=2)
    after = without(total, delay)
    scale = np.divide(after, total, out=np.ones_like(total), where=total != 0)
    return np.asarray(np.where(delay.affected[..., None], excess * scale[..., None], excess))


def _limits(noise: float, series: Series) -> tuple[float, float]:
    """From when an excess is a stall, and a definite event, ns."""
    least = max(SMALLEST_SHARE * series.step_ns, 5.0 * noise)
    return least, max(EVENT_SHARE * series.step_ns, EVENT_SIGMAS * noise)


def _thresholds(excess: Times, least: float) -> list[float]:
    """From the largest excess down by halves."""
    largest = float(excess.max(initial=0.0))
    levels = largest / 2.0 ** np.arange(1, _MOST_LEVELS)
    return [float(level) for level in levels if level > least] + [least]


def _stalls(excess: Times, series: Series) -> Iterator[Delay]:
    """Events that are those of a rank, or of ranks that stall together."""
    total = excess.sum(axis=2)
    _, definite = _limits(noise_of(total), series)
    for threshold in _thresholds(total, definite):
        flags = (total >= threshold) & ((total >= threshold).mean(axis=0) <= MOST_OF_RANK)
        if not flags.any():
            continue
        costs = costs_of(np.where(flags[..., None], excess, 0.0)).sum(axis=2)
        for first in np.argsort(-costs.sum(axis=0), kind="stable")[:2]:
            if costs[:, first].any():
                found = _owned(
                    total, flags, costs, int(first), max(threshold / 2, definite), series
                )
                if found is not None:
                    yield found


def _owned(
    total: Times, flags: Bools, costs: Times, first: int, lower: float, series: Series
) -> Delay | None:
    """The events of a rank, with those of ranks alike, if no others have any, or beyond chance."""
    num_ranks = flags.shape[1]
    alike = _ranks_alike(flags, first)
    if 2 * int(alike.sum()) > num_ranks:
        alike = np.arange(num_ranks) == first
    together: Bools = np.asarray(flags[:, alike].any(axis=1))
    if not _are_enough(together, total[:, alike], series.step_ns):
        return None
    starts = run_starts(together)
    grid = series.grid(starts)
    of_others = total[:, ~alike] >= lower
    has_others = bool((of_others & (of_others.mean(axis=0) <= MOST_OF_RANK)).any())
    is_certain = grid is not None and grid.chance * num_ranks <= CERTAIN
    # Of all events: each one could have been any rank's, or that of the ranks alike.
    num_units = num_ranks - int(alike.sum()) + 1
    chance = float(num_units ** (1.0 - np.count_nonzero(starts)))
    if has_others and not is_certain:
        is_own, chance = _is_most(together, flags, costs, alike)
        if not is_own:
            return None
    places = tuple(int(place) for place in np.flatnonzero(alike))
    affected = flags & alike
    if grid is not None and (is_certain or (not has_others and grid.chance <= CHANCE_OF_KIND)):
        on_grid = runs_from(together, starts, grid.on_grid)
        chosen = affected & on_grid[:, None]
        chance = grid.chance * num_ranks if has_others else min(chance, grid.chance * num_ranks)
        return Delay(STRAGGLER, places, chosen, True, period=grid.period, chance=chance)
    return Delay(STRAGGLER, places, affected, True, chance=chance)


def _is_most(together: Bools, flags: Bools, costs: Times, alike: Bools) -> tuple[bool, float]:
    """Whether nearly all of the events' time is of these ranks, or more than chance gives.

    And the chance that events of any rank give one as much.
    """
    own = costs[:, alike].sum(axis=1, keepdims=True)
    merged = np.concatenate([own, costs[:, ~alike]], axis=1)
    is_most = float(own.sum()) >= MOST_OF_TIME * float(merged.sum())
    events = np.flatnonzero(run_starts(np.asarray(flags.any(axis=1))))
    chance = float(chances_of_events(merged, events)[0])
    is_often = np.count_nonzero(run_starts(together)) >= LEAST_EVENTS
    is_long = _longest(together) >= LONG_RUN
    is_beyond = is_long or (is_often and chance <= CHANCE_OF_OWNER)
    return chance <= CERTAIN or bool(is_most and is_beyond), chance


def _of_any_rank(excess: Times, series: Series) -> Delay | None:
    """Events of any rank at random."""
    total = excess.sum(axis=2)
    num_ranks = total.shape[1]
    # Steps of different length have a short lower quarter: of any rank, both quarters count.
    _, definite = _limits(max(noise_of(total), quartile_noise(total)), series)
    flags = total >= definite
    in_step: Bools = np.asarray(flags.any(axis=1))
    if not in_step.any() or in_step.mean() > MOST_OF_ALL or num_ranks < 2:
        return None
    if not _are_enough(in_step, total, series.step_ns) or np.count_nonzero(flags.any(axis=0)) < 2:
        return None
    starts = run_starts(in_step)
    grid = series.grid(starts)
    places = tuple(range(num_ranks))
    if grid is not None and grid.chance <= CHANCE_OF_KIND:
        on_grid = runs_from(in_step, starts, grid.on_grid)
        return Delay(STRAGGLER, places, flags & on_grid[:, None], True, period=grid.period)
    return Delay(STRAGGLER, places, flags, True)


def _most_expensive(excess: Times, delays: list[Delay]) -> Delay | None:
    """The delay that costs most; a regular one that costs nearly as much goes before."""
    costs = [saving(excess, delay) for delay in delays]
    chosen = [
        (one.period == one.period, cost, -number)
        for number, (one, cost) in enumerate(zip(delays, costs, strict=True))
        if cost > 0 and cost >= NEARLY * max(costs)
    ]
    return delays[-max(chosen)[2]] if chosen else None


def _ranks_alike(flags: Bools, first: int) -> Bools:
    """[ranks] The ranks that stall in the same steps as ``first``, itself included."""
    own = flags[:, first : first + 1]
    return np.asarray((flags & own).sum(axis=0) >= LEAST_ALIKE * (flags | own).sum(axis=0))


def _are_enough(in_step: Bools, times: Times, step_ns: float) -> bool:
    """Whether so many events are named: three, or one or two that take much of the launch."""
    if np.count_nonzero(run_starts(in_step)) >= LEAST_EVENTS or _longest(in_step) >= LONG_RUN:
        return True
    of_steps = times.max(axis=1)[in_step]
    usual = step_ns - of_steps.sum() / len(times)
    is_large = of_steps.max(initial=0.0) >= LARGE_STEPS * usual
    return bool(is_large and of_steps.sum() >= LARGE_SHARE * step_ns * len(times))


def _longest(flags: Bools) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def runs_from(flags: Bools, starts: Bools, chosen: Bools) -> Bools:
    """The true values from each chosen start up to the next start."""
    return np.asarray(flags & np.concatenate([[False], chosen])[np.cumsum(starts)])


def _widened(events: Bools, long: Bools) -> Bools:
    """The events with the long steps right before and after them."""
    number = np.cumsum(run_starts(long))
    return np.asarray(events | (long & np.isin(number, number[events & long])))
