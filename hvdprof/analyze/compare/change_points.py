"""From which value of a short series on its distribution differs.

E-divisive: D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point
analysis of multivariate data", Journal of the American Statistical Association 109 (2014). As in
Hunter (M. Fleming et al., "Hunter: using change point detection to hunt for performance
regressions", ICPE 2023), splits are found at a weak level and then held against Student's t between
neighbouring segments: a rise that falls back later is lost at a strong level. Tested in
``tests/analyze/compare/test_history.py``.
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import student_below

LEAST = 4
"""Values on either side of a change point."""

PERMUTATIONS = 399
SPLIT_LEVEL = 0.1
_LEVEL = 0.001
_SEED = 20261122


def change_points(values: NDArray[np.float64]) -> list[int]:
    """The places from which on the distribution differs, in order.

    1.  Segments are split at the place of the largest energy statistic, as long as a permutation
        test of that statistic over all segments is significant at 10 %.
    2.  Places whose neighbouring segments do not differ at 0.1 % (Welch's t) are dropped again, the
        least significant first.

    Args:
        values: In order of time, without NaN.
    """
    found = _splits(values)
    while found:
        bounds = [0, *found, len(values)]
        chances = [
            _chance(values[a:b], values[b:c])
            for a, b, c in zip(bounds[:-2], bounds[1:-1], bounds[2:], strict=True)
        ]
        weakest = int(np.argmax(chances))
        if chances[weakest] <= _LEVEL:
            break
        del found[weakest]
    return found


def _chance(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """The two-sided p-value of equal means (Welch)."""
    parts = [float(side.var(ddof=1)) / len(side) for side in (before, after)]
    variance, difference = sum(parts), abs(float(after.mean() - before.mean()))
    if variance == 0:
        return 0.0 if difference > 0 else 1.0
    squares = sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (before, after), strict=True)
    )
    return 2 * student_below(variance**2 / squares, -difference / math.sqrt(variance))


def _splits(values: NDArray[np.float64]) -> list[int]:
    random = np.random.default_rng(_SEED)
    found: list[int] = []
    while True:
        bounds = [0, *found, len(values)]
        segments = [values[a:b] for a, b in itertools.pairwise(bounds)]
        best = [_best_split(segment) for segment in segments]
        number = max(range(len(best)), key=lambda index: best[index][0])
        largest, place = best[number]
        if not largest > 0 or not _is_significant(segments, largest, random):
            return found
        found = sorted([*found, bounds[number] + place])


def _is_significant(
    segments: list[NDArray[np.float64]], largest: float, random: np.random.Generator
) -> bool:
    """Whether values shuffled within their segments rarely reach the statistic."""
    reached = sum(
        max(_best_split(random.permutation(segment))[0] for segment in segments) >= largest
        for _ in range(PERMUTATIONS)
    )
    return (reached + 1) / (PERMUTATIONS + 1) <= SPLIT_LEVEL


def _best_split(values: NDArray[np.float64]) -> tuple[float, int]:
    """The largest energy statistic of a split, and its place; 0 where the segment is too short.

    The values before a place are held against those from it to any end, not to the last value
    alone: what rises and falls again has its end there.
    """
    num = len(values)
    if num < 2 * LEAST:
        return 0.0, 0
    distances = np.abs(values[:, None] - values[None, :])
    corner = np.zeros((num + 1, num + 1))
    corner[1:, 1:] = np.cumsum(np.cumsum(distances, axis=0), axis=1)
    place, end = np.meshgrid(np.arange(num + 1), np.arange(num + 1), indexing="ij")
    before, after = place, end - place
    is_split = (before >= LEAST) & (after >= LEAST)
    before, after = np.where(is_split, before, LEAST), np.where(is_split, after, LEAST)
    left = corner[place, place]
    right = corner[end, end] - 2 * corner[place, end] + left
    across = corner[place, end] - left
    energy = 2 * across / (before * after)
    energy -= left / (before * (before - 1)) + right / (after * (after - 1))
    statistic = np.where(is_split, before * after / (before + after) * energy, 0.0)
    best = int(statistic.argmax())
    return float(statistic.flat[best]), best // (num + 1)
