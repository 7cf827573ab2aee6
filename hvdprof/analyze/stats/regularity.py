"""Whether events come at a fixed period, in one launch or in several of a script.

A grid is every p-th step from some first step. Of all grids, the one that holds the events best is
taken; the chance that events at random steps fill any grid as well is bounded by the sum over all
grids that could be (union bound of hypergeometric probabilities).

Some steps may not have been measured. They keep their place on the grids, but hold no event and
miss none.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import hypergeometric_tail
from hvdprof.model.arrays import Bools, Int64s

LEAST_EVENTS = 3
LEAST_FILLED = 0.8
"""Share of a grid with an event, and share of the events on the grid, from which it counts."""

SLACK = 0.05
"""Largest distance from the grid, as a share of the period, of events that follow a clock."""


@dataclass(frozen=True, slots=True)
class Regularity:
    """A period in steps, which events are on its grid, and the chance of as good a grid."""

    period: float
    on_grid: Bools
    chance: float


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps counted from the first: how many there are, and which of them were not measured."""

    num: int
    unmeasured: Int64s

    @property
    def num_measured(self) -> int:
        return self.num - len(self.unmeasured)

    def sizes(self, period: int) -> Int64s:
        """[period] Measured steps of the grid from each first step on."""
        sizes = np.full(period, self.num // period, dtype=np.int64)
        sizes[: self.num % period] += 1
        if len(self.unmeasured):
            sizes -= np.bincount(self.unmeasured % period, minlength=period)
        return sizes


def regularity(events: Int64s, steps: Int64s) -> Regularity | None:
    """The best grid of the events; None where no grid is filled.

    Args:
        events: Where in ``steps`` the events are, ascending.
        steps: The numbers of the steps that could hold an event, ascending.
    """
    if len(events) < LEAST_EVENTS:
        return None
    numbers = steps - steps[0]
    known = _Steps(int(numbers[-1]) + 1, np.setdiff1d(np.arange(numbers[-1] + 1), numbers))
    found = [
        grid
        for slack in (0.0, SLACK)
        if (grid := _best_grid(numbers[events], known, slack)) is not None
    ]
    return min(found, key=lambda grid: grid.chance, default=None)


def _best_grid(events: Int64s, steps: _Steps, slack: float) -> Regularity | None:
    best: tuple[int, int, int, int] | None = None
    for period in _periods(len(events), steps):
        width = _width(period, slack)
        if slack and not width:
            continue
        counts = np.bincount(events % period, minlength=period)
        near = _circular_sum(counts, width)
        first = int(near.argmax())
        hits = int(near[first])
        if hits < LEAST_EVENTS or hits < LEAST_FILLED * len(events):
            continue
        size = int(steps.sizes(period)[first])
        if hits < LEAST_FILLED * size:
            continue
        # Of grids with the same events, the longest period fills best.
        if best is None or hits - size > best[0] - best[1]:
            best = (hits, size, period, first)
    if best is None:
        return None
    hits, size, period, first = best
    turns = np.rint((events - first) / period)
    on_grid = np.abs(events - first - turns * period) <= _width(period, slack)
    chosen = turns[on_grid]
    if len(np.unique(chosen)) < max(LEAST_EVENTS, LEAST_FILLED * size):
        return None
    period_steps = float(np.polyfit(chosen, events[on_grid], 1)[0]) if slack else float(period)
    chance = _chance(hits, len(events), steps, slack)
    return Regularity(period_steps, on_grid, min(1.0, chance))


def _periods(num_events: int, steps: _Steps) -> range:
    """Periods whose grids ``num_events`` events can fill."""
    longest = steps.num // 2
    shortest = max(2, math.floor(steps.num_measured / (num_events / LEAST_FILLED + 1)))
    return range(shortest, longest + 1)


def _width(period: int, slack: float) -> int:
    return min(round(slack * period), (period - 1) // 2) if slack else 0


def _circular_sum(counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """For every place: the counts from ``width`` places before it to ``width`` after it."""
    if not width:
        return counts
    around = np.concatenate((counts[-width - 1 :], counts, counts[:width])).cumsum()
    return np.asarray(around[2 * width + 1 :] - around[: len(counts)])


def _chance(hits: int, num_events: int, steps: _Steps, slack: float) -> float:
    """Bound of the probability that random events fill some grid with as many hits."""
    number_of: Counter[int] = Counter()
    for period in _periods(num_events, steps):
        width = _width(period, slack)
        if slack and not width:
            continue
        for size, number in enumerate(np.bincount(steps.sizes(period))):
            if size >= LEAST_EVENTS and size * LEAST_FILLED <= hits:
                number_of[min(size * (2 * width + 1), steps.num_measured)] += int(number)
    places, numbers = np.array(list(number_of)), np.array(list(number_of.values()))
    if not len(places):
        return 0.0
    tails = hypergeometric_tail(hits, num_events, places, steps.num_measured)
    return float((numbers * tails).sum())


LEAST_IN_EPOCHS = 4
"""Events from which a grid within epochs counts: it has one number more."""

LONGEST_EPOCH = 400
"""Steps of the longest epoch that is looked for."""

Launch = tuple[Int64s, Int64s]
"""Numbers of the steps with an event, and of all steps that were measured, from the begin on."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Every ``period``-th step from ``first`` on; within epochs of ``epoch`` steps if not 0."""

    period: int
    first: int
    epoch: int = 0

    def holds(self, numbers: Int64s) -> Bools:
        """Which of the steps lie on it."""
        within = numbers % self.epoch if self.epoch else numbers
        return np.asarray(within % self.period == self.first)


def common_grid(launches: Sequence[Launch], level: float) -> Grid | None:
    """The grid that holds the events of all launches best; None where chance would fill one, too.

    One launch has two of its events at least: events at one step of each launch have no period.

    Args:
        launches: The launches of one script.
        level: Accepted chance that events at random fill any grid as well.
    """
    events = np.concatenate([one for one, _ in launches]) if launches else np.zeros(0, np.int64)
    steps = np.concatenate([one for _, one in launches]) if launches else events
    if len(events) < LEAST_EVENTS or max(len(one) for one, _ in launches) < 2:
        return None
    longest = int(steps.max()) // 2
    found = _best(((period, 0) for period in range(2, longest + 1)), events, steps)
    if (
        found is not None
        and _chance_of_grid(found, events, steps, longest * (longest + 1) // 2) <= level
    ):
        return found
    if len(events) < LEAST_IN_EPOCHS:
        return None
    last = min(longest, LONGEST_EPOCH)
    found = _best(_within_epochs(events, last), events, steps)
    num_grids = sum((epoch // 2) * (epoch // 2 + 1) // 2 for epoch in range(4, last + 1))
    if found is not None and _chance_of_grid(found, events, steps, num_grids) <= level:
        return found
    return None


def is_on(grid: Grid, launches: Sequence[Launch], level: float) -> bool:
    """Whether the events of other launches lie on a grid that is known, beyond chance.

    Args:
        grid: The grid.
        launches: Launches of the same script.
        level: Accepted chance that events at random fill it as well.
    """
    events = np.concatenate([one for one, _ in launches])
    steps = np.concatenate([one for _, one in launches])
    return _fills(grid, events, steps) and _chance_of_grid(grid, events, steps, 1) <= level


def _within_epochs(events: Int64s, longest: int) -> Iterator[tuple[int, int]]:
    """Periods that some events have, in all epochs of which they are no whole part."""
    gaps, counts = np.unique(np.diff(np.unique(events)), return_counts=True)
    for period in gaps[counts >= 2]:
        for epoch in range(int(period) + 1, longest + 1):
            if period >= 2 and epoch % period:
                yield int(period), epoch


def _best(periods: Iterator[tuple[int, int]], events: Int64s, steps: Int64s) -> Grid | None:
    """The grid with most events more than steps without one; of equal ones, the longest period."""
    best: tuple[int, int, Grid] | None = None
    for period, epoch in periods:
        within = events % epoch if epoch else events
        grid = Grid(period, int(np.bincount(within % period).argmax()), epoch)
        if _fills(grid, events, steps):
            hits = int(grid.holds(events).sum())
            rank = (hits - int(grid.holds(steps).sum()), period)
            if best is None or rank > best[:2]:
                best = (*rank, grid)
    return best[2] if best is not None else None


def _fills(grid: Grid, events: Int64s, steps: Int64s) -> bool:
    hits, size = int(grid.holds(events).sum()), int(grid.holds(steps).sum())
    return hits >= 2 and hits >= LEAST_FILLED * max(len(events), size)


def _chance_of_grid(grid: Grid, events: Int64s, steps: Int64s, num_grids: int) -> float:
    hits = int(grid.holds(events).sum())
    size = max(int(grid.holds(steps).sum()), int(hits / LEAST_FILLED))
    tail = hypergeometric_tail(hits, len(events), np.array([size]), len(steps))
    return float(tail[0]) * num_grids
