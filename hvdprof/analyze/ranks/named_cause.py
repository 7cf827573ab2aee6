"""A delay found in a launch: its ranks, phase and pattern, its cost, the launch without it."""

from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.ranks.account import known_medians
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools
from hvdprof.model.tables.waiting_tables import LASTING_PATTERNS

SMALLEST_SHARE = 0.05
"""Smallest share of the step time for a late step, and for the cost of a named cause."""

FALSE_ALARMS = 0.003
"""Accepted probability of a false alarm in a clean launch."""

LEAST_STEPS_OF_CAUSE = 8


@dataclass(frozen=True, slots=True)
class Delay:
    """As ``NamedCause``, with ``places`` (columns) and ``affected`` [steps, ranks].

    ``is_event``: each affected step stands out by itself; else the ranks are later on average.
    ``last_ns`` is the delay at the end of one that grows. ``chance`` is that of equal ranks to give
    any of them as much; 0 of a pause.
    """

    kind: str
    places: tuple[int, ...]
    affected: Bools
    is_event: bool
    pattern: str = ""
    period: float = NAN
    last_ns: float = NAN
    chance: float = 0.0


def run_starts(flags: Bools, apart: int = 1) -> Bools:
    """The first true value of each run along the first axis.

    ``apart`` false values, or the beginning, are before it: with more than one, runs with short
    gaps count once.
    """
    before = np.zeros_like(flags)
    for distance in range(1, apart + 1):
        before[distance:] |= flags[:-distance]
    return flags & ~before


def quartile_noise(times: Times) -> float:
    """Standard deviation of the median rank, from the quartiles: as wide as steps usually differ.

    Args:
        times: [steps, ranks]
    """
    low, high = np.quantile(times, (0.25, 0.75), axis=0)
    return float(np.median(high - low)) / 1.349


def noise_of(excess: Times) -> float:
    """Standard deviation of the median rank, from the lower quarter: delays do not widen it.

    Args:
        excess: [steps, ranks]
    """
    lowest, low, high = np.quantile(excess, (0.05, 0.25, 0.75), axis=0)
    return float(np.median(np.minimum((low - lowest) / 0.971, (high - low) / 1.349)))


def without(excess: Times, delay: Delay) -> Times:
    """[steps, ranks] The excess without a delay: events as usual, else less what is positive."""
    columns = list(delay.places)
    affected, own = delay.affected[:, columns], excess[:, columns]
    changed = excess.copy()
    if delay.is_event:
        usual = known_medians(np.where(affected, np.nan, own))
        changed[:, columns] = np.where(affected, np.minimum(own, usual), own)
    else:
        changed[:, columns] = np.where(affected, np.minimum(own, 0.0), own)
    return changed


def saving(excess: Times, delay: Delay) -> float:
    """What the launch saves per step without a delay, ns."""
    after = without(excess, delay)
    return float((excess.max(axis=1).clip(0) - after.max(axis=1).clip(0)).mean())


def of_all(flags: Bools, num_ranks: int) -> Bools:
    """[steps, ranks] The flags [steps] for every rank."""
    return np.repeat(flags[:, None], num_ranks, axis=1)


STRAGGLER, PAUSE = "straggler", "pause"
"""Kinds: one rank or ranks alike, later than the others; all ranks at once."""

PERSISTENT, PERIODIC, IRREGULAR, FROM_STEP = "persistent", "periodic", "irregular", "from-step"
"""Patterns: in most steps; in every k-th step; at no regular steps; from one step to the end."""

FOR_A_WHILE, GROWING = "for-a-while", "growing"
"""From one step to another one; longer and longer."""

LASTING = LASTING_PATTERNS
"""Patterns of ranks that are slower, in contrast to events."""


@dataclass(frozen=True, slots=True)
class NamedCause:
    """A significant delay of one launch.

    ``ranks`` are rank numbers, ascending; those of a pause are all ranks. A straggler of all ranks
    is any rank at random: ``affected`` says which one in which step. ``phase`` is data,
    forward, backward, before_update (from the end of backward to the update), optimizer, pause
    (outside every phase), evaluation (the same, of a rank that
    evaluates while others do not) or mixed, and ``phase_share`` the share of the excess in
    the largest phase. ``period_steps`` is NaN unless the pattern is
    periodic, and ``epoch_steps`` unless its counter restarts with each epoch of so many steps.
    ``num_events`` counts runs of affected steps; of a straggler that lasts, affected
    steps. ``first_step`` and ``last_step`` are the numbers of the first and last affected step.
    ``last_delay_ns`` is the delay at the end of one that grows, else NaN. ``chance`` is that of
    equal ranks to give any of them as much in a launch; 0 of a pause.

    ``affected`` [steps, ranks] of the RankTimes is true where the delay lies between the release of
    the step before and the arrival.
    """

    kind: str
    ranks: tuple[int, ...]
    phase: str
    phase_share: float
    pattern: str
    period_steps: float
    num_events: int
    first_step: int
    last_step: int
    last_delay_ns: float
    affected: Bools
    epoch_steps: float = NAN
    chance: float = 0.0
