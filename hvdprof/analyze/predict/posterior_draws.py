"""Draws from the posterior of a few parameters with Gaussian priors, by importance resampling.

1. The mode is found with BFGS (``scipy.optimize``), its curvature by differences.
2. Proposals are Student's t with four degrees of freedom around the mode, which is wider in the
   tails than the posterior.
3. They are resampled with weights of posterior over proposal (Rubin, Bayesian Statistics 3, 1988).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_STEP = 1e-3
_DEGREES = 4.0
_PROPOSALS_PER_DRAW = 4
_LEAST_PROPOSALS = 1_000
_WIDEN = 1.2
"""Proposals are this much wider than the curvature at the mode says."""

_REACH = 10.0
"""The search stays within so many standard deviations of the priors: exponentials are finite."""

_SETS_AT_ONCE = 500

Densities = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""The logarithm of a density of many parameter sets [sets, parameters] at once."""


@dataclass(frozen=True, slots=True)
class Prior:
    """A lognormal prior: its median, and the standard deviation of the logarithm."""

    median: float
    log_error: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """A weighted likelihood with Gaussian priors on the parameters.

    Attributes:
        log_likelihood: Of many parameter sets.
        prior_means: Of each parameter.
        prior_errors: Standard deviation of each prior.
        weight: Factor on the log-likelihood, below 1 where observations are not independent.
    """

    log_likelihood: Densities
    prior_means: NDArray[np.float64]
    prior_errors: NDArray[np.float64]
    weight: float = 1.0

    def log_density(self, sets: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of the posterior up to a constant."""
        prior = -0.5 * (((sets - self.prior_means) / self.prior_errors) ** 2).sum(axis=1)
        return np.asarray(self.weight * self.log_likelihood(sets) + prior)

    def mode(self, starts: Sequence[NDArray[np.float64]] = ()) -> NDArray[np.float64]:
        """The parameters of the largest density, searched from the prior means by default.

        Of several starts, the best end counts.
        """
        ends = [self._climb(start) for start in starts or (self.prior_means,)]
        return ends[int(np.argmax(self.log_density(np.array(ends))))]

    def _climb(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        # Importing scipy.optimize takes a while: only commands that fit pay for it.
        from scipy.optimize import Bounds, minimize

        steps = _STEP * np.eye(len(start))
        reach = _REACH * self.prior_errors
        bounds = Bounds(self.prior_means - reach, self.prior_means + reach)

        def value_and_slope(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            values = self.log_density(np.vstack([point, point + steps, point - steps]))
            number = len(point)
            slope = (values[1 : number + 1] - values[number + 1 :]) / (2 * _STEP)
            return -float(values[0]), -slope

        found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds)
        return np.asarray(found.x, dtype=np.float64)

    def draws(
        self, mode: NDArray[np.float64], random: np.random.Generator, num_draws: int
    ) -> tuple[NDArray[np.float64], float]:
        """Draws [draws, parameters], and the effective number of proposals behind them.

        A number below 100 shows that the posterior is far from its approximation.
        """
        factor = _WIDEN * np.linalg.cholesky(self._covariance(mode))
        number = max(_LEAST_PROPOSALS, _PROPOSALS_PER_DRAW * num_draws)
        normal = random.standard_normal((number, len(mode)))
        spread = np.sqrt(random.chisquare(_DEGREES, (number, 1)) / _DEGREES)
        proposals = mode + (normal / spread) @ factor.T
        squares = ((normal / spread) ** 2).sum(axis=1)
        log_proposal = -(_DEGREES + len(mode)) / 2 * np.log1p(squares / _DEGREES)
        pieces = range(0, number, _SETS_AT_ONCE)
        # In pieces: a likelihood needs memory for every set and observation.
        densities = [self.log_density(proposals[at : at + _SETS_AT_ONCE]) for at in pieces]
        logs = np.concatenate(densities) - log_proposal
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        chosen = random.choice(number, size=num_draws, p=weights)
        return proposals[chosen], float(1 / np.square(weights).sum())

    def _covariance(self, mode: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of the curvature; never wider than the priors in any direction."""
        number, step = len(mode), 10 * _STEP
        shifts = step * np.eye(number)
        points = [
            mode + first * shifts[row] + second * shifts[column]
            for row in range(number)
            for column in range(number)
            for first in (1, -1)
            for second in (1, -1)
        ]
        values = self.log_density(np.array(points)).reshape(number, number, 4)
        mixed = values[..., 0] - values[..., 1] - values[..., 2] + values[..., 3]
        scaled = -mixed / (4 * step**2) * np.outer(self.prior_errors, self.prior_errors)
        eigenvalues, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        inverse = (vectors / np.maximum(eigenvalues, 1.0)) @ vectors.T
        return np.asarray(inverse * np.outer(self.prior_errors, self.prior_errors))
