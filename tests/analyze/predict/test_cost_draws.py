"""Costs of draws whose rules differ, and their scatter."""

from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Link, Topology
from hvdprof.analyze.predict.costs.cost_draws import GLOO, OPEN_MPI_41, CostDraws, Pricing

ALPHAS = np.array([1e3, 2e3, 3e3])
BETAS = np.array([0.1, 0.2, 0.3])


def _draws(log_residuals: list[float], fitted: list[float]) -> CostDraws:
    return CostDraws(
        (GLOO, OPEN_MPI_41),
        np.array([0, 1, 0]),
        Link(ALPHAS, BETAS),
        Link(10 * ALPHAS, 10 * BETAS),
        np.array([5e3, 6e3, 7e3]),
        np.array(log_residuals),
        np.array(fitted),
    )


def test_every_draw_has_its_rule_and_its_links() -> None:
    sizes = np.array([1e3, 1e6])
    found = _draws([], []).cost_ns(Topology(8, 4), sizes)
    assert found.shape == (3, 2)
    for draw, rule in enumerate((GLOO, OPEN_MPI_41, GLOO)):
        intra = Link(ALPHAS[draw], BETAS[draw])
        inter = Link(10 * ALPHAS[draw], 10 * BETAS[draw])
        expected = rule.cost_ns(Topology(8, 4), intra, inter, sizes) + 5e3 + 1e3 * draw
        assert found[draw] == pytest.approx(expected, rel=1e-12)


def _near(draws: CostDraws, cost_ns: float) -> list[float]:
    """Measured over fitted times of the observations near a cost."""
    (first,), (stop,) = draws.neighbours(np.array([cost_ns]))
    return [float(factor) for factor in np.exp(draws.log_residuals[first:stop])]


def test_scatter_comes_from_observations_of_similar_cost() -> None:
    # Cheap allreduces scatter by 2, expensive ones by 1.
    draws = _draws([np.log(2.0)] * 50 + [0.0] * 50, [1e3] * 50 + [1e6] * 50)
    assert _near(draws, 1e3) == pytest.approx([2.0] * 40)
    assert _near(draws, 1e6) == pytest.approx([1.0] * 40)


def test_scatter_of_few_expensive_allreduces_is_not_that_of_cheap_ones() -> None:
    draws = _draws([np.log(2.0)] * 50 + [0.0] * 5, [1e3] * 50 + [1e6] * 5)
    assert _near(draws, 1e6) == [1.0] * 5
    assert _near(draws, 1e9) == []


def test_without_observations_there_is_no_scatter() -> None:
    assert _near(_draws([], []), 1e6) == []


def test_each_draw_may_have_a_payload_and_a_burst_of_its_own() -> None:
    plain = _draws([], [])
    draws = replace(plain, inter=replace(plain.inter, burst_bytes=np.array([0.0, 1e4, 1e5])))
    payloads = np.array([1e5, 1e6, 1e7])
    found = Pricing(draws, Topology(8, 4), 1).cost_ns(payloads)
    table = draws.cost_ns(Topology(8, 4), payloads)
    assert found == pytest.approx(np.diag(table), rel=1e-12)
    assert np.all(np.diag(plain.cost_ns(Topology(8, 4), payloads))[1:] > found[1:])
    assert not Pricing(draws, Topology(1, 1), 1).cost_ns(payloads).any()
