"""The start of the steady state of a launch, and its drift.

Sources: MSER-5, K. P. White Jr., M. J. Cobb and S. C. Spratt, "A comparison of five steady-state
truncation heuristics for simulation", Winter Simulation Conference 2000.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.stats.uncertainty import NAN, autocorrelation_time

BATCH = 5
MIN_BATCHES = 4
CLEAR = 3.0
"""Standard errors by which the excluded steps must differ from the rest."""

LONG_SHARE, LONG_SIGMAS = 0.25, 8.0
"""From this share of the median above it, and these standard deviations, a step is a pause."""

MOST_LONG = 1 / 3
"""Share of the steps up to which pauses are rare."""

LONGEST_START = 0.25
"""Share of the steps up to which other steps at the start are warm-up, such as a full queue."""

LEAST_SLOWER = 0.05
"""By this share of the rest, more steps than that are longer if they are warm-up."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """Steps from ``num_cut`` are steady; ``found`` is false if excluding half was not enough."""

    num_cut: int
    found: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative change of the step time from the first to the last step, with its error."""

    change: float
    error: float


def steady_window(times: NDArray[np.float64]) -> SteadyWindow:
    """The steady steps after warm-up that the counted warm-up batches do not cover.

    0.  Rare pauses behind the start, such as a checkpoint every 20 steps, count as usual steps: no
        cut would be right for them, and MSER would cut all up to the last one but one.
    1.  MSER-5: means of batches of 5 steps; of all cuts d up to half of the m batches, the one with
        the smallest ``sum((x_i - mean)^2) / (m - d)^2`` over the rest, that is the smallest squared
        error of the mean.
    2.  The cut applies only if the mean of the excluded steps differs from the mean of the rest by
        3 standard errors. Otherwise MSER cuts into noise, most of all in short launches.
    3.  If the best cut is half of the steps, warm-up has possibly not ended: ``found`` is false.
    4.  Faster steps at the start, more than a quarter of all, are no warm-up: a rank or the machine
        became slower. All steps count, and ``found`` is false. As many that are longer by less than
        5 % count, too: events in them are worth more than that.

    Below 20 steps nothing is excluded.
    """
    num_batches = len(times) // BATCH
    if num_batches < MIN_BATCHES:
        return SteadyWindow(0, True)
    times = _without_pauses(times)
    # Batches count from the end, so that the remaining steps are on the warm-up side.
    odd = len(times) - num_batches * BATCH
    batches = times[odd:].reshape(-1, BATCH).mean(axis=1)
    left = np.arange(num_batches, 0, -1)
    centred = batches - batches.mean()
    sums, squares = (np.cumsum(values[::-1])[::-1] for values in (centred, centred**2))
    largest_cut = num_batches // 2
    # Rounding must not choose among cuts with equal batches; the first one applies.
    spread = np.maximum(squares - sums**2 / left - 1e-9 * squares[0], 0)
    cut = int(np.argmin((spread / left**2)[: largest_cut + 1]))
    num_cut = odd + cut * BATCH if cut else 0
    if not num_cut or not _clearly_different(times[:num_cut], times[num_cut:]):
        return SteadyWindow(0, True)
    slower = float(times[:num_cut].mean() / times[num_cut:].mean()) - 1
    if slower < LEAST_SLOWER and num_cut > LONGEST_START * len(times):
        return SteadyWindow(0, slower > 0 and cut < largest_cut)
    return SteadyWindow(num_cut, cut < largest_cut)


def _without_pauses(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times with rare long steps as usual; neither those of the start nor a slow phase."""
    lowest, low, median = np.quantile(times, (0.05, 0.25, 0.5))
    least = max(LONG_SHARE * median, LONG_SIGMAS * (low - lowest) / 0.971)
    is_long = times > median + least
    if is_long.mean() > MOST_LONG:
        return times
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_long.astype(np.int8), [0]])))
    usual = times.copy()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if first and last - first < BATCH:
            usual[first:last] = median
    return usual


def _clearly_different(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    variance = float(after.var(ddof=1)) * autocorrelation_time(after)
    error = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    return abs(float(before.mean() - after.mean())) > CLEAR * error


def drift_of(times: NDArray[np.float64]) -> Drift:
    """The trend over the window: slope of a straight line by its length and the mean step time.

    The error is that of least squares times the square root of the residuals' autocorrelation
    time, so that a slow wave is no trend. NaN below 10 steps.
    """
    num = len(times)
    if num < 2 * BATCH:
        return Drift(NAN, NAN)
    position = np.arange(num) - (num - 1) / 2
    length = float(np.square(position).sum())
    slope = float(position @ times) / length
    residual = times - times.mean() - slope * position
    variance = float(np.square(residual).sum()) / (num - 2)
    error = math.sqrt(variance * autocorrelation_time(residual) / length)
    by_mean = num / float(times.mean())
    return Drift(slope * by_mean, error * by_mean)
