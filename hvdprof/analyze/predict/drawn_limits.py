"""Where scaling ends, from draws of the efficiency at rising numbers of ranks."""

import math
from collections.abc import Sequence

import numpy as np

from hvdprof.model.arrays import Float64s
from hvdprof.model.forecast import Limits

KNEE_POINTS = 0.05
"""A doubling that costs more points of efficiency than this is beyond the knee."""

_MOST_DRAWS = 0.5


def drawn_limits(
    scenario: str, sizes: Sequence[int], efficiencies: Float64s, target: float, first: int
) -> Limits:
    """The knee and the largest number of ranks at the target.

    Between two sizes the efficiency changes linearly with log N. A draw ends where it falls below
    the target for the first time.

    Args:
        scenario: The name of the curve.
        sizes: Numbers of ranks in rising order.
        efficiencies: [draws, sizes]; a NaN stands for an efficiency that has no lower end.
        target: Efficiency that a useful number of ranks reaches.
        first: The knee is searched from this size on, such as the largest measured one.
    """
    logs = np.log2(np.asarray(sizes, dtype=np.float64))
    knee, probability = _knee(logs, efficiencies, sizes, first)
    largest = _largest(logs, efficiencies, target)
    # Whole draws: between a number and "beyond" lies nothing to interpolate.
    low, middle, high = (
        float(value) for value in np.quantile(largest, [0.05, 0.5, 0.95], method="inverted_cdf")
    )
    return Limits(
        scenario=scenario,
        knee=knee,
        knee_probability=probability,
        largest_np=min(middle, float(sizes[-1])),
        largest_np_low=min(low, float(sizes[-1])),
        largest_np_high=min(high, float(sizes[-1])),
        is_beyond=math.isinf(middle),
        is_high_beyond=math.isinf(high),
        is_low_open=bool(np.isnan(efficiencies).any()),
    )


def _knee(
    logs: Float64s, efficiencies: Float64s, sizes: Sequence[int], first: int
) -> tuple[int | None, float]:
    slopes = np.diff(efficiencies, axis=1) / np.diff(logs)
    shares = np.mean(slopes < -KNEE_POINTS, axis=0)
    for size, share in zip(sizes[:-1], shares, strict=True):
        if size >= first and share > _MOST_DRAWS:
            return int(size), float(share)
    return None, math.nan


def _largest(logs: Float64s, efficiencies: Float64s, target: float) -> Float64s:
    """The number of ranks [draws] at which each draw falls below the target, inf beyond all."""
    below = ~(efficiencies >= target)
    falls = below.any(axis=1)
    at = below.argmax(axis=1)
    rows = np.arange(len(efficiencies))
    before = np.maximum(at - 1, 0)
    upper, lower = efficiencies[rows, before], efficiencies[rows, at]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((upper - target) / (upper - lower), 0.0, 1.0)
    # A draw without a lower end falls at once.
    share = np.where(np.isnan(share), 0.0, share)
    crossing = np.exp2(logs[before] + share * (logs[at] - logs[before]))
    largest: Float64s = np.where(falls, np.where(at == 0, 0.0, crossing), np.inf)
    return largest
