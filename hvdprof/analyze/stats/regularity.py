"""Whether events come at a fixed period, by an exact test.

A grid is every p-th step from some first step. Of all grids, the one that holds the events best is
taken; the chance that events at random steps fill any grid as well is bounded by the sum over all
grids that could be (union bound of hypergeometric probabilities).
"""

import math
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


def regularity(events: Int64s, num_steps: int) -> Regularity | None:
    """The best grid of the events; None where no grid is filled.

    Args:
        events: Step numbers of the events, from 0, ascending.
        num_steps: Number of steps that could hold an event.
    """
    if len(events) < LEAST_EVENTS:
        return None
    found = [
        grid for slack in (0.0, SLACK) if (grid := _best_grid(events, num_steps, slack)) is not None
    ]
    return min(found, key=lambda grid: grid.chance, default=None)


def _best_grid(events: Int64s, num_steps: int, slack: float) -> Regularity | None:
    best: tuple[int, int, int, int] | None = None
    for period in _periods(len(events), num_steps):
        width = _width(period, slack)
        if slack and not width:
            continue
        counts = np.bincount(events % period, minlength=period)
        near = _circular_sum(counts, width)
        first = int(near.argmax())
        hits = int(near[first])
        size = len(range(first, num_steps, period))
        if hits < LEAST_EVENTS or hits < LEAST_FILLED * max(len(events), size):
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
    chance = _chance(hits, len(events), num_steps, slack)
    return Regularity(period_steps, on_grid, min(1.0, chance))


def _periods(num_events: int, num_steps: int) -> range:
    """Periods whose grids ``num_events`` events can fill."""
    longest = num_steps // 2
    shortest = max(2, math.floor(num_steps / (num_events / LEAST_FILLED + 1)))
    return range(shortest, longest + 1)


def _width(period: int, slack: float) -> int:
    return min(round(slack * period), (period - 1) // 2) if slack else 0


def _circular_sum(counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """For every place: the counts from ``width`` places before it to ``width`` after it."""
    if not width:
        return counts
    around = np.concatenate((counts[-width - 1 :], counts, counts[:width])).cumsum()
    return np.asarray(around[2 * width + 1 :] - around[: len(counts)])


def _chance(hits: int, num_events: int, num_steps: int, slack: float) -> float:
    """Bound of the probability that random events fill some grid with as many hits."""
    periods = np.array(_periods(num_events, num_steps))
    widths = np.array([_width(period, slack) for period in periods])
    if slack:
        periods, widths = periods[widths > 0], widths[widths > 0]
    total = 0.0
    short = num_steps // periods
    # A grid of period p has one point more for the first num_steps % p places of its first step.
    longer = num_steps % periods
    for size, number in ((short + 1, longer), (short, periods - longer)):
        possible = (size * LEAST_FILLED <= hits) & (size >= LEAST_EVENTS) & (number > 0)
        places = np.minimum(size * (2 * widths + 1), num_steps)[possible]
        total += float(
            (number[possible] * hypergeometric_tail(hits, num_events, places, num_steps)).sum()
        )
    return total
