"""Posteriors whose form is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hvdprof.analyze.predict.costs.posterior_draws import Posterior


def test_gaussian_likelihood_and_prior_give_the_textbook_posterior() -> None:
    """Precisions add: prior 1 around 0, data 4 around 3 in one of two parameters."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * 4 * (sets[:, 0] - 3) ** 2)

    exact = Posterior(log_likelihood, np.zeros(2), np.ones(2))
    mode = exact.mode()
    assert mode == pytest.approx([2.4, 0.0], abs=1e-4)
    draws = exact.draws(mode, np.random.default_rng(0), 3_000)
    assert draws.mean(axis=0) == pytest.approx([2.4, 0.0], abs=0.08)
    assert draws.std(axis=0) == pytest.approx([np.sqrt(0.2), 1.0], rel=0.08)


def test_correlated_parameters_are_drawn_together() -> None:
    """Only the sum is known: the difference stays as wide as its prior."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * 1e4 * (sets.sum(axis=1) - 1) ** 2)

    known = Posterior(log_likelihood, np.zeros(2), np.ones(2))
    draws = known.draws(known.mode(), np.random.default_rng(1), 5_000)
    assert draws.sum(axis=1).std() == pytest.approx(0.01, rel=0.1)
    assert (draws[:, 0] - draws[:, 1]).std() == pytest.approx(np.sqrt(2), rel=0.05)


@pytest.mark.heavy
def test_a_curved_posterior_is_drawn_to_the_ends_of_its_arms() -> None:
    """Only exp(x) + exp(y) is known, to 15 %: at each end, one of the two is nearly nothing."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * (np.log(np.exp(sets).sum(axis=1) / 2) / 0.15) ** 2)

    curved = Posterior(log_likelihood, np.zeros(2), np.full(2, 1.2))
    draws = curved.draws(curved.mode(), np.random.default_rng(4), 2_000)
    axis = np.linspace(-6, 1, 701)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    exact = np.exp(curved.log_density(grid))
    order = np.argsort(grid[:, 0], kind="stable")
    shares = np.cumsum(exact[order]) / exact.sum()
    quantiles = grid[order, 0][np.searchsorted(shares, [0.05, 0.5, 0.95])]
    assert np.quantile(draws[:, 0], [0.05, 0.5, 0.95]) == pytest.approx(quantiles, abs=0.3)


def test_a_skewed_posterior_is_not_taken_for_a_gaussian() -> None:
    """exp(x) is Gamma(3): the quantiles of its logarithm are those of the Gamma distribution."""

    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(3 * sets[:, 0] - np.exp(sets[:, 0]))

    skewed = Posterior(log_likelihood, np.zeros(1), np.full(1, 1e2))
    draws = skewed.draws(skewed.mode(), np.random.default_rng(2), 3_000)
    found = np.quantile(np.exp(draws[:, 0]), [0.05, 0.5, 0.95])
    # Gamma(3, 1): R, qgamma(c(.05, .5, .95), 3).
    assert found == pytest.approx([0.8177, 2.6741, 6.2958], rel=0.15)


def test_half_the_weight_is_twice_the_variance() -> None:
    def log_likelihood(sets: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * (sets[:, 0] / 0.1) ** 2)

    spreads = []
    for weight in (1.0, 0.5):
        weighted = Posterior(log_likelihood, np.zeros(1), np.full(1, 1e3), weight)
        draws = weighted.draws(weighted.mode(), np.random.default_rng(3), 3_000)
        spreads.append(float(draws.std()))
    assert spreads == pytest.approx([0.1, 0.1 * np.sqrt(2)], rel=0.05)
