"""Throughput at unseen numbers of ranks, from measured throughputs alone.

With the rank time ``t(N) = N / throughput``, the time that one rank takes per sample:

    log t(N) = level + log(1 + b * g(N)) + walk(log2 N) + error
    g(N) = (N**k - 1) / (2**k - 1),  g(N) = log2 N for k = 0

``b`` is the loss of the first doubling. The exponent ``k`` joins the usual forms into one family:
``k = -1`` is the ring's 2 (N - 1) / N, 0 grows with log N, 1 with N, and ``b = 0`` keeps the
efficiency. A few sizes do not determine the form, so all exponents count, each by its likelihood
(Bayesian model averaging: J. Hoeting et al., Statistical Science 14, 1999). ``walk`` is a random
walk over doublings, the model discrepancy of M. Kennedy and A. O'Hagan (JRSS B 63, 2001): the last
size counts most, as behind the step from one host to two, and bands widen with each doubling. Its
step has several sizes with weights of their own, which makes the tails heavier than normal. Past
the largest size it drifts: what a larger job runs into first (slower links, more hosts) costs more
often than it gains.

The constants were chosen on 76 public tables: TensorFlow's benchmarks of 2017, DLPerf, InternLM and
single reports, 1 to 1,024 GPUs. docs/howto/predict.md has the errors and the coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Float64s

MEASUREMENT_ERROR = 0.015
"""Relative error of one measured throughput where no size was repeated."""

_ERROR_DEGREES = 4.0
_SPREAD_OF_LEVEL = 10.0
_EXPONENTS = np.linspace(-1.0, 2.0, 25)
_WEAK, _STRONG = (0.0, 0.3), (1.0, 0.4)
_FIRST_LOSSES = np.concatenate([[0.0], np.geomspace(0.002, 2.0, 40)])
_NO_LOSS = 0.1
_STEPS = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.16])
_UNSEEN_LOSS = 0.012
"""Mean of the walk per doubling past the largest measured size."""

_STEP_WEIGHTS = np.array([0.05, 0.05, 0.2, 0.3, 0.25, 0.15])


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """Throughputs of one series: ``rates`` [repeats] of each of ``sizes``, in rising order."""

    sizes: tuple[int, ...]
    rates: tuple[tuple[float, ...], ...]

    def log_rank_times(self) -> Float64s:
        """The mean of log(N / throughput) of each size."""
        return np.array(
            [
                np.log(size) - np.log(rates).mean()
                for size, rates in zip(self.sizes, self.rates, strict=True)
            ]
        )

    def error(self) -> float:
        """The relative error of one measurement: the prior's, joined by the spread of repeats."""
        squares = sum(
            float(np.square(np.log(rate) - np.log(rate).mean()).sum()) for rate in self.rates
        )
        degrees = sum(len(rate) - 1 for rate in self.rates)
        pooled = _ERROR_DEGREES * MEASUREMENT_ERROR**2 + squares
        return float(np.sqrt(pooled / (_ERROR_DEGREES + degrees)))


@dataclass(frozen=True, slots=True)
class EmpiricalFit:
    """The curves that fit a series; ``weights`` [steps, exponents, first losses] sum to 1.

    ``residuals`` [exponents, first losses, sizes] are the logarithms of the measured rank times
    minus those of each curve without its level; ``error`` is that of one measurement.
    """

    sizes: Float64s
    num_repeats: Float64s
    residuals: Float64s
    weights: Float64s
    error: float

    def draws(self, targets: Sequence[int], num_draws: int, rng: np.random.Generator) -> Float64s:
        """Rank times [draws, targets] in seconds per sample, without the error of a measurement.

        The draws of one row are one curve. Components are drawn with systematic resampling, so
        that few draws represent the weights well.

        Args:
            targets: Numbers of ranks, measured ones or others.
            num_draws: Rows.
            rng: Source of the draws.
        """
        wanted = np.asarray(targets, dtype=np.float64)
        places = (rng.random() + np.arange(num_draws)) / num_draws
        ends = np.cumsum(self.weights.ravel())
        chosen = np.searchsorted(ends / ends[-1], places)
        step, exponent, loss = np.unravel_index(chosen, self.weights.shape)
        unseen: Float64s = np.maximum(np.log2(wanted / self.sizes[-1]), 0.0)
        curves = _log_curves(wanted) + _UNSEEN_LOSS * unseen
        logs = np.empty((num_draws, len(wanted)))
        for number, size in enumerate(_STEPS):
            rows = step == number
            gain, covariance = self._conditional(wanted, float(size))
            means = (
                curves[exponent[rows], loss[rows]]
                + self.residuals[exponent[rows], loss[rows]] @ gain.T
            )
            # Symmetric square root: the covariance is singular at a size that is given twice.
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            logs[rows] = means + rng.standard_normal(means.shape) @ root.T
        return np.exp(logs)

    def _conditional(self, wanted: Float64s, step: float) -> tuple[Float64s, Float64s]:
        """The weights of the residuals at the wanted sizes, and the covariance that remains."""
        known = _covariance(self.sizes, self.sizes, self.sizes[0], step)
        known += np.diag(self.error**2 / self.num_repeats)
        across = _covariance(wanted, self.sizes, self.sizes[0], step)
        gain = np.asarray(np.linalg.solve(known, across.T).T, dtype=np.float64)
        remaining: Float64s = _covariance(wanted, wanted, self.sizes[0], step) - gain @ across.T
        return gain, remaining


def fit_empirical(measured: MeasuredRates, *, strong: bool = False) -> EmpiricalFit:
    """The curves that fit measured throughputs, weighted by prior and likelihood.

    Args:
        measured: At least two sizes.
        strong: All ranks share one batch, so that fixed parts grow with N in the rank time.

    Raises:
        ValueError: There are fewer than two sizes.
    """
    if len(measured.sizes) < 2:
        raise ValueError("a curve needs two sizes")
    sizes = np.asarray(measured.sizes, dtype=np.float64)
    num_repeats = np.array([len(rates) for rates in measured.rates], dtype=np.float64)
    error = measured.error()
    residuals = measured.log_rank_times() - _log_curves(sizes)
    logs = np.empty((len(_STEPS), *residuals.shape[:2]))
    for number, step in enumerate(_STEPS):
        covariance = _covariance(sizes, sizes, sizes[0], float(step))
        covariance += np.diag(error**2 / num_repeats)
        inverse = np.linalg.inv(covariance)
        misfit = np.einsum("kbi,ij,kbj->kb", residuals, inverse, residuals)
        logs[number] = -0.5 * (misfit + np.linalg.slogdet(covariance)[1])
    centre, spread = _STRONG if strong else _WEAK
    exponents = np.exp(-0.5 * np.square((_EXPONENTS - centre) / spread))
    losses = np.full(len(_FIRST_LOSSES), (1 - _NO_LOSS) / (len(_FIRST_LOSSES) - 1))
    losses[0] = _NO_LOSS
    weights = np.exp(logs - logs.max()) * np.einsum("s,k,b->skb", _STEP_WEIGHTS, exponents, losses)
    return EmpiricalFit(sizes, num_repeats, residuals, weights / weights.sum(), error)


def with_measurement_error(
    rank_times: Float64s, error: float, rng: np.random.Generator
) -> Float64s:
    """Rank times as one measurement gives them: what a band must cover."""
    measured: Float64s = rank_times * np.exp(error * rng.standard_normal(rank_times.shape))
    return measured


def _log_curves(sizes: Float64s) -> Float64s:
    """log(1 + b * g(N)) [exponents, first losses, sizes]."""
    powers = _EXPONENTS[:, None]
    is_log = np.abs(powers) < 1e-9
    safe = np.where(is_log, 1.0, powers)
    growth = np.expm1(safe * np.log(sizes)) / np.expm1(safe * np.log(2.0))
    growth = np.where(is_log, np.log2(sizes), growth)
    curves: Float64s = np.log1p(_FIRST_LOSSES[None, :, None] * growth[:, None, :])
    return curves


def _covariance(of: Float64s, to: Float64s, first: float, step: float) -> Float64s:
    """Of the unknown level and the random walk; it has no step below the smallest size."""
    doublings = np.minimum.outer(np.log2(of), np.log2(to)) - np.log2(first)
    covariance: Float64s = step**2 * np.maximum(doublings, 0.0) + _SPREAD_OF_LEVEL**2
    return covariance
