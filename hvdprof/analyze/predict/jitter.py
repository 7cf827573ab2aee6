"""The jitter of single ranks from step to step, and what the slowest of many costs.

A launch of R ranks holds few steps in which as many ranks are slow at once as on N ranks. If the
ranks are independent within a step, N ranks wait for the largest of N draws from the pooled
residuals. What all ranks have in common does not grow with N, so it is taken out first.

Beyond the sample the tail is a generalized Pareto distribution, fitted to the largest tenth by
probability-weighted moments (Hosking and Wallis, Technometrics 29, 1987).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN, autocorrelation_time
from hvdprof.model.arrays import Float32s, Float64s, Int64s

TAIL_SHARE = 0.1
LEAST_EXCEEDANCES = 10
HEAVIEST_TAIL = 0.3
"""Beyond this shape the variance of the largest value is dominated by what was never seen."""

_INDEX_PRIOR = 0.2
"""Standard deviation of shapes before any is measured; an estimate from n exceedances has about
``1 / sqrt(n)``."""

_IN_SAMPLE = 5
"""So many of the largest values are left to the tail instead of the sample."""
_SPACING, _DEEPEST = 0.04, 24.0
_NODES = np.arange(0.0, _DEEPEST, _SPACING)
"""Quantiles are kept at ``u = 1 - exp(-node)``: as fine in the tail as in the middle."""
_MOST_SAMPLES, _LEAST_SAMPLES, _MOST_SORTED = 100, 20, 2_000_000


@dataclass(frozen=True, slots=True)
class Tail:
    """A generalized Pareto distribution of what exceeds a threshold.

    ``index`` is its shape (xi): negative with an end, 0 exponential, positive heavy.
    """

    threshold: float
    index: float
    scale: float


@dataclass(frozen=True, slots=True)
class Jitter:
    """The independent part of the time of a rank in a step, in units of its mean window.

    Attributes:
        quantiles: [samples, nodes] Quantile functions of bootstrap samples.
        sd: Standard deviation.
        tail_index: Shape of the tail; NaN where too few values hold none.
        common_share: Share of the variance that all ranks of a step have in common (ICC).
        num_values: Pooled residuals.
    """

    quantiles: Float64s
    sd: float
    tail_index: float
    common_share: float
    num_values: int

    @property
    def num_samples(self) -> int:
        """Bootstrap samples."""
        return len(self.quantiles)

    def values(self, samples: Int64s, depths: Float64s | Float32s) -> Float64s:
        """Jitter at ``u = 1 - exp(-depth)``; exponential depths give random values.

        Args:
            samples: Numbers of bootstrap samples, in a shape that broadcasts to ``depths``.
            depths: At least 0.
        """
        place = np.minimum(depths / _SPACING, len(_NODES) - 1.001)
        left = place.astype(np.int32)
        rest = place - left
        left += samples.astype(np.int32) * np.int32(len(_NODES))
        flat = self.quantiles.ravel()
        low = flat.take(left)
        left += 1
        return np.asarray(low + (flat.take(left) - low) * rest)

    def expected_maximum(self, num: int) -> Float64s:
        """[samples] The expected largest of ``num`` independent values."""
        below = (1.0 - np.exp(-_NODES)) ** num
        weights = np.diff(below, append=1.0)
        middle = (self.quantiles[:, :-1] + self.quantiles[:, 1:]) / 2
        return np.asarray(np.c_[middle, self.quantiles[:, -1]] @ weights)

    def beyond_sample(self, num: int) -> float:
        """How much of the expected maximum lies beyond the sample."""
        inner = _depth_of_sample(self.num_values)
        capped = np.minimum(self.quantiles, self.quantiles[:, [int(inner / _SPACING)]])
        held = Jitter(capped, self.sd, self.tail_index, self.common_share, self.num_values)
        return float((self.expected_maximum(num) - held.expected_maximum(num)).mean())

    def is_open(self, num: int, least: float) -> bool:
        """Whether the largest of ``num`` values is not known: the tail is heavy, and matters.

        Args:
            num: Ranks.
            least: Smallest contribution beyond the sample that matters, of the mean window.
        """
        heavy = math.isnan(self.tail_index) or self.tail_index > HEAVIEST_TAIL
        return heavy and self.beyond_sample(num) > least


def no_jitter() -> Jitter:
    """Of ranks that take the same time in every step."""
    return Jitter(np.zeros((1, len(_NODES))), 0.0, 0.0, 0.0, 0)


def normal_jitter(sds: Sequence[float]) -> Jitter:
    """Normal jitter, where none was measured.

    Args:
        sds: Standard deviations in units of the mean window, one per sample.
    """
    from scipy.special import ndtri

    shape = -ndtri(np.exp(-np.maximum(_NODES, _SPACING / 2)))
    quantiles = np.outer(np.asarray(sds, dtype=np.float64), shape)
    return Jitter(quantiles, float(np.mean(sds)), 0.0, 0.0, 0)


def jitter_of(windows: Sequence[Float64s], rng: np.random.Generator) -> Jitter:
    """The jitter of launches, resampled in blocks of steps as long as they are correlated.

    Args:
        windows: Per launch [steps, ranks] the time of each rank in each step, in units of the mean.
        rng: Source of randomness.
    """
    split = [_residuals(window) for window in windows if len(window) > 1]
    if not split:
        return no_jitter()
    residuals = [one for one, _ in split]
    pooled = np.concatenate([residual.ravel() for residual in residuals])
    if not pooled.any():
        return no_jitter()
    num = max(_LEAST_SAMPLES, min(_MOST_SAMPLES, _MOST_SORTED // len(pooled)))
    resampled = (
        np.concatenate([_blocks(residual, rng).ravel() for residual in residuals])
        for _ in range(num)
    )
    weights = [residual.size for residual in residuals]
    return Jitter(
        quantiles=np.stack([_quantiles(np.sort(sample)) for sample in resampled]),
        sd=float(pooled.std()),
        tail_index=tail_of(np.sort(pooled)).index,
        common_share=float(np.average([share for _, share in split], weights=weights)),
        num_values=len(pooled),
    )


def tail_of(ordered: Float64s) -> Tail:
    """The tail of values in ascending order; the index is NaN for too few of them.

    With the mean b0 of the exceedances and b1, their mean weighted by the share of larger ones,
    the shape is ``2 - b0 / (b0 - 2 b1)`` and the scale ``2 b0 b1 / (b0 - 2 b1)``.
    """
    num = int(len(ordered) * TAIL_SHARE)
    if num < LEAST_EXCEEDANCES:
        return Tail(float(ordered[-1]), NAN, 0.0)
    threshold = float(ordered[-num - 1])
    over = ordered[-num:] - threshold
    first = float(over.mean())
    second = float((over * np.arange(num - 1, -1, -1)).mean() / (num - 1))
    if not first > 2 * second > 0:
        return Tail(threshold, 0.0, first)
    index = 2 - first / (first - 2 * second)
    return Tail(threshold, index, 2 * first * second / (first - 2 * second))


def _residuals(window: Float64s) -> tuple[Float64s, float]:
    """[steps, ranks] Times without the means of the ranks and without what all have in common.

    The common part of a step is its mean over ranks, shrunk by the share of that mean's variance
    that chance does not explain: with two ranks and nothing in common, subtracting the mean itself
    would make every distribution symmetric, and a long tail short.
    """
    num_steps, num_ranks = window.shape
    centred = window - window.mean(axis=0)
    if num_ranks < 2:
        return centred, 0.0
    of_step = centred.mean(axis=1, keepdims=True)
    inner = float(np.square(centred - of_step).sum()) / ((num_ranks - 1) * (num_steps - 1))
    between = num_ranks * float(np.square(of_step).sum()) / (num_steps - 1)
    if not inner > 0 or not between > 0:
        return centred - of_step, float(between > 0)
    common = max(0.0, (between - inner) / num_ranks)
    shrunk = max(0.0, 1 - inner / between)
    own = centred - shrunk * of_step
    scale = math.sqrt(inner / float(np.square(own).mean()))
    return own * scale, common / (common + inner)


def _blocks(residuals: Float64s, rng: np.random.Generator) -> Float64s:
    """As many steps, drawn in blocks."""
    num = len(residuals)
    length = min(num, max(1, round(2 * autocorrelation_time(residuals[:, 0]))))
    starts = rng.integers(0, num, -(-num // length))
    rows = (starts[:, None] + np.arange(length)).ravel()[:num] % num
    return np.asarray(residuals[rows])


def _quantiles(ordered: Float64s) -> Float64s:
    """[nodes] The quantile function: the sample, and its tail beyond it."""
    num = len(ordered)
    shares = 1.0 - np.exp(-_NODES)
    inside = np.interp(shares * num - 0.5, np.arange(num), ordered)
    tail = tail_of(ordered)
    inner = _depth_of_sample(num)
    last = int(inner / _SPACING)
    if math.isnan(tail.index) or last >= len(_NODES) - 1:
        return np.asarray(inside)
    start = float(inside[last])
    # The shape with a prior around exponential tails: those of few values stray far.
    num_exceedances = int(num * TAIL_SHARE)
    certain = num_exceedances * _INDEX_PRIOR**2
    index = min(max(tail.index * certain / (certain + 1.0), -0.5), 0.9)
    # Exceedances of a higher threshold have the same shape.
    scale = max(tail.scale + index * (start - tail.threshold), 0.0)
    deeper = _NODES[last:] - _NODES[last]
    grown = deeper if abs(index) < 1e-6 else np.expm1(index * deeper) / index
    return np.concatenate([inside[:last], start + scale * grown])


def _depth_of_sample(num_values: int) -> float:
    return max(0.0, math.log(max(num_values, 1) / _IN_SAMPLE))
