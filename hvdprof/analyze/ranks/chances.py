"""The chance that equal ranks would give any rank as much as one has."""

import math
from collections.abc import Sequence

import numpy as np

from hvdprof.analyze.ranks.account import costs_of
from hvdprof.analyze.stats.change_point import (
    LEAST_VALUES,
    best_splits,
    chance_of,
    has_changed,
    self_normalised,
)
from hvdprof.analyze.stats.distributions import student_below, student_quantile
from hvdprof.analyze.stats.uncertainty import autocorrelation_time
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.arrays import Bools, Int64s

MOST_ASSIGNED = 12
"""Events of two ranks up to which all assignments are counted."""

FEW_DRAWS, MANY_DRAWS = 199, 1999
"""Permutations until a chance above 2.5 % is plain, and for smaller ones."""

MOST_BLOCKS, MOST_RANKS = 64, 64
"""Blocks of steps, and costliest ranks, that are permuted: the chance of more is smaller still."""

SLOWEST = 0.9
"""Quantile of the correlations of the other ranks that sets the length of a block."""

LEAST_DEGREES = 4.0
"""Degrees of freedom below which the mean of a rank has no error."""

LEVEL_OF_SCATTER = 0.01
"""Accepted probability that differences between launches name a rank of a healthy cell."""

LARGE_SHARE = 0.2
"""Mean lateness, as a share of the step, that needs no agreement between launches.

In 27 healthy launches on CPUs (two ranks, two cores) the lateness of a rank had a standard
deviation of 10 % of the step; its mean over the launches of a run was at most 12 %.
"""

MOST_EDGES = 256
"""Steps at which a stretch may begin or end; of more steps, so many at equal distances."""

_LEAST_SPLIT = 4


def chances_of_events(costs: Times, starts: Int64s) -> Times:
    """[ranks] The chance that any rank has as much, were the events of any rank at random.

    The ranks of each event, a run of steps, are permuted; every assignment is counted for two ranks
    and few events. It holds for all ranks together (largest value of all).

    Args:
        costs: [steps, ranks] Costs of the events.
        starts: The first step of each event.
    """
    return _permuted(_blocks(costs, starts))


def chances_of_level(excess: Times, costs: Times, level: float, wanted: Bools) -> Times:
    """[ranks] The chance that any of equal ranks is as late on average; 1 of ranks not wanted.

    The smaller of two tests, doubled: Student's t of the excess over the other ranks, with the
    error of the residuals around the best split of its steps, so that a rank that becomes slow
    counts; and a permutation of the ranks by blocks of steps of twice the autocorrelation time.

    Args:
        excess: [steps, ranks]
        costs: [steps, ranks]
        level: The second test is left out where the first one is below.
        wanted: [ranks]
    """
    num_ranks = excess.shape[1]
    chances = np.ones(num_ranks)
    late = excess - medians_of_others(excess)
    splits = best_splits(late, _LEAST_SPLIT)
    for place in np.flatnonzero(wanted):
        tail = _tail_of_mean(late[:, place], int(splits[place]), level / (2 * num_ranks))
        chances[place] = min(1.0, 2 * num_ranks * tail)
    left = wanted & (chances > level)
    if left.any():
        of_blocks = chances_of_costs([costs], block_length(excess, left))
        chances[left] = np.minimum(chances, 2 * of_blocks)[left]
    return chances


def chance_of_level(excess: Times, places: Sequence[int], level: float) -> float:
    """``chances_of_level`` of the least late of some columns of an excess by phase."""
    wanted = np.isin(np.arange(excess.shape[1]), list(places))
    costs = costs_of(excess).sum(axis=2)
    return float(chances_of_level(excess.sum(axis=2), costs, level, wanted)[wanted].max())


def chances_of_costs(launches: Sequence[Times], length: int) -> Times:
    """[ranks] The chance that any rank has as much, by permutation of blocks of steps.

    No block reaches over two launches.

    Args:
        launches: [steps, ranks] The costs of each launch.
        length: Steps of a block (``block_length``).
    """
    blocks = [_blocks(costs, np.arange(0, len(costs), length)) for costs in launches]
    return _permuted(np.concatenate(blocks))


def block_length(excess: Times, wanted: Bools) -> int:
    """Twice the longest correlation of ranks from step to step, in steps.

    Of two other ranks or more, theirs: equal ranks have the same noise, and the delay of a rank
    that grows or lasts for a while is correlated itself. Else that of the latest ranks.

    Args:
        excess: [steps, ranks]
        wanted: [ranks] Those that are judged.
    """
    others = np.flatnonzero(~wanted)
    if len(others) > 1:
        times = [autocorrelation_time(excess[:, place]) for place in others[:MOST_RANKS]]
        longest = float(np.quantile(times, SLOWEST))
    else:
        top = np.argsort(-np.where(wanted, excess.mean(axis=0), -np.inf))[:3]
        longest = max(autocorrelation_time(excess[:, place]) for place in top if wanted[place])
    own = int(np.ceil(2 * longest)) if longest > 1.2 else 1
    return max(own, -(-len(excess) // MOST_BLOCKS))


def exceeds_scatter(late: Times, places: Sequence[int]) -> bool:
    """Whether ranks are late beyond the scatter of launches.

    Args:
        late: [launches, ranks] Mean lateness as a share of the step, of two launches or more.
        places: Columns of the ranks, whose mean is tested.
    """
    num_launches, num_ranks = late.shape
    mean = float(late[:, list(places)].mean())
    if mean >= LARGE_SHARE:
        return True
    scatter = float(late.var(axis=0, ddof=1).mean())
    # The lateness of ranks is relative to each other: one rank less is free.
    degrees = (num_launches - 1) * (num_ranks - 1)
    quantile = student_quantile(degrees, 1 - LEVEL_OF_SCATTER / num_ranks)
    return mean > quantile * math.sqrt(scatter / num_launches)


def _tail_of_mean(values: Times, split: int, level: float) -> float:
    """One-sided; 1 where nothing can be said.

    The smaller of Student's t and, tripled, of the self-normalised test of ``significance``.
    """
    mean = float(values.mean())
    if mean <= 0:
        return 1.0
    tail = 1.0
    if len(values) >= LEAST_VALUES:
        tail = min(1.0, 3 * chance_of(self_normalised(values)))
    residuals, degrees = _residuals(values, split, level)
    if degrees < LEAST_DEGREES:
        return tail
    error = float(np.sqrt(residuals.var() / degrees))
    return min(tail, student_below(degrees, -mean / error) if error > 0 else 0.0)


def _residuals(values: Times, split: int, level: float) -> tuple[Times, float]:
    """Around the mean, and their degrees of freedom; around levels or a line where sure.

    Around the best of many levels any correlated noise looks independent. So they count only where
    they explain much more than chance would, were every step a possible change.
    """
    num = len(values)
    centred = values - values.mean()
    fitted = _around(values, split)
    degrees = num / autocorrelation_time(fitted) - 3
    is_known = degrees >= LEAST_DEGREES and has_changed(values, split, level)
    if is_known or _chance_of_fit(centred, fitted, degrees, num) <= level:
        return fitted, degrees
    fitted = _around_stretch(centred)
    degrees = num / autocorrelation_time(fitted) - 4
    if _chance_of_fit(centred, fitted, degrees, num * (num - 1) / 2) <= level:
        return fitted, degrees
    return centred, num / autocorrelation_time(centred) - 1


def _chance_of_fit(centred: Times, fitted: Times, degrees: float, num_fits: float) -> float:
    """The chance that the best of so many fits explains as much of equal steps."""
    if degrees < LEAST_DEGREES:
        return 1.0
    explained = centred.var() / fitted.var() - 1 if fitted.var() > 0 else np.inf
    return num_fits * 2 * student_below(degrees, -float(np.sqrt(explained * degrees)))


def _around_stretch(centred: Times) -> Times:
    """The residuals around the level of the best stretch of steps, and that of the others."""
    num = len(centred)
    rows = np.unique(np.linspace(0, num, min(num, MOST_EDGES) + 1).astype(int))
    sums = np.concatenate([[0.0], np.cumsum(centred)])[rows]
    lengths = rows[None, :] - rows[:, None]
    inside = np.where((lengths > 0) & (lengths < num), lengths, num - 1)
    gain = np.where(lengths > 0, (sums[None, :] - sums[:, None]) ** 2, 0.0)
    gain = gain / (inside * (num - inside))
    first, last = np.unravel_index(int(gain.argmax()), gain.shape)
    within = np.zeros(num, dtype=bool)
    within[rows[first] : rows[last]] = True
    fitted = centred.copy()
    for part in (within, ~within):
        if part.any():
            fitted[part] -= fitted[part].mean()
    return fitted


def _around(values: Times, split: int) -> Times:
    """The residuals around two levels or a line, whichever is nearer: a delay may grow."""
    levels = np.concatenate([part - part.mean() for part in np.split(values, [split])])
    rows = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(rows @ values) / float(rows @ rows)
    line = values - values.mean() - slope * rows
    return line if line.var() < levels.var() else levels


def _blocks(costs: Times, starts: Int64s) -> Times:
    """[blocks, ranks] Sums over blocks; those without cost say nothing."""
    if not len(starts):
        return np.zeros((0, costs.shape[1]))
    sums = np.add.reduceat(costs, starts, axis=0)
    return np.asarray(sums[sums.any(axis=1)])


def _permuted(sums: Times) -> Times:
    num_blocks, seen = len(sums), sums.sum(axis=0)
    if not num_blocks:
        return np.ones(sums.shape[1])
    if len(seen) == 2 and num_blocks <= MOST_ASSIGNED:
        signs = 1 - 2 * ((np.arange(2**num_blocks)[:, None] >> np.arange(num_blocks)) & 1)
        top = (sums.sum() + np.abs(signs @ (sums[:, 0] - sums[:, 1]))) / 2
        return np.array([(top >= one * (1 - 1e-9)).mean() for one in seen])
    costliest = np.argsort(-seen)[:MOST_RANKS]
    chosen = sums[:, costliest]
    rng = np.random.default_rng(0)
    largest = _largest_of_draws(chosen, FEW_DRAWS, rng)
    if float((largest >= seen.max() * (1 - 1e-9)).mean()) < 0.025:
        more = _largest_of_draws(chosen, MANY_DRAWS - FEW_DRAWS, rng)
        largest = np.concatenate([largest, more])
    exceeding = np.array([(largest >= one * (1 - 1e-9)).sum() for one in seen])
    return np.asarray((1 + exceeding) / (len(largest) + 1))


def _largest_of_draws(sums: Times, num: int, rng: np.random.Generator) -> Times:
    """[draws] The largest sum of a rank, with the ranks of every block permuted."""
    drawn = np.zeros((num, sums.shape[1]))
    for block in sums:
        drawn += rng.permuted(np.tile(block, (num, 1)), axis=1)
    return np.asarray(drawn.max(axis=1))
