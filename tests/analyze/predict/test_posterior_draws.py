"""Posteriors whose form is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hvdprof.analyze.predict.posterior_draws import Posterior


def test_gaussian_likelihood_and_prior_give_the_textbook_posterior() -> None:
    """Precisions add: prior 1 around 0, data 4 around 3 in one of two parameters."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * 4 * (sets[:, 0] - 3) ** 2)

    exact = Posterior(log_likelihood, np.zeros(2), np.ones(2))
    mode = exact.mode()
    assert mode == pytest.approx([2.4, 0.0], abs=1e-4)
    draws, num_effective = exact.draws(mode, np.random.default_rng(0), 20_000)
    assert draws.mean(axis=0) == pytest.approx([2.4, 0.0], abs=0.03)
    assert draws.std(axis=0) == pytest.approx([np.sqrt(0.2), 1.0], rel=0.03)
    assert num_effective > 20_000


def test_correlated_parameters_are_drawn_together() -> None:
    """Only the sum is known: the difference stays as wide as its prior."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * 1e4 * (sets.sum(axis=1) - 1) ** 2)

    known = Posterior(log_likelihood, np.zeros(2), np.ones(2))
    draws, _ = known.draws(known.mode(), np.random.default_rng(1), 5_000)
    assert draws.sum(axis=1).std() == pytest.approx(0.01, rel=0.1)
    assert (draws[:, 0] - draws[:, 1]).std() == pytest.approx(np.sqrt(2), rel=0.05)


def test_a_skewed_posterior_is_not_taken_for_a_gaussian() -> None:
    """exp(x) is Gamma(3): the quantiles of its logarithm are those of the Gamma distribution."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(3 * sets[:, 0] - np.exp(sets[:, 0]))

    skewed = Posterior(log_likelihood, np.zeros(1), np.full(1, 1e3))
    draws, _ = skewed.draws(skewed.mode(), np.random.default_rng(2), 40_000)
    found = np.quantile(np.exp(draws[:, 0]), [0.05, 0.5, 0.95])
    # Gamma(3, 1): R, qgamma(c(.05, .5, .95), 3).
    assert found == pytest.approx([0.8177, 2.6741, 6.2958], rel=0.03)


def test_half_the_weight_is_twice_the_variance() -> None:
    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * (sets[:, 0] / 0.1) ** 2)

    spreads = []
    for weight in (1.0, 0.5):
        weighted = Posterior(log_likelihood, np.zeros(1), np.full(1, 1e3), weight)
        draws, _ = weighted.draws(weighted.mode(), np.random.default_rng(3), 10_000)
        spreads.append(float(draws.std()))
    assert spreads == pytest.approx([0.1, 0.1 * np.sqrt(2)], rel=0.05)
