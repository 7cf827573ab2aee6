"""Whether events of several launches of a script lie at the same period, counted from its begin.

A grid is every k-th step from some first one, or every k-th step of an epoch: a counter that
restarts with each epoch. The chance that events at random steps fill any grid as well is bounded by
the number of grids that could be, times the hypergeometric probability of the largest of them.

Tested in ``tests/analyze/stats/test_common_grid.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.distributions import hypergeometric_tail
from hvdprof.analyze.stats.regularity import LEAST_EVENTS, LEAST_FILLED
from hvdprof.model.arrays import Bools, Int64s

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
    if found is not None and _chance(found, events, steps, longest * (longest + 1) // 2) <= level:
        return found
    if len(events) < LEAST_IN_EPOCHS:
        return None
    last = min(longest, LONGEST_EPOCH)
    found = _best(_within_epochs(events, last), events, steps)
    num_grids = sum((epoch // 2) * (epoch // 2 + 1) // 2 for epoch in range(4, last + 1))
    if found is not None and _chance(found, events, steps, num_grids) <= level:
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
    return _fills(grid, events, steps) and _chance(grid, events, steps, 1) <= level


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


def _chance(grid: Grid, events: Int64s, steps: Int64s, num_grids: int) -> float:
    hits = int(grid.holds(events).sum())
    size = max(int(grid.holds(steps).sum()), int(hits / LEAST_FILLED))
    tail = hypergeometric_tail(hits, len(events), np.array([size]), len(steps))
    return float(tail[0]) * num_grids
