import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Topology
from hvdprof.analyze.predict.costs.cost_draws import always
from hvdprof.analyze.predict.costs.negotiation_draws import (
    Negotiates,
    NegotiationDraws,
    draw_negotiation,
    negotiation_ns,
)
from hvdprof.analyze.predict.costs.stated_links import with_rule
from hvdprof.model.arrays import Float64s
from tests.builders.predicted_jobs import NUM_COSTS, stated_costs

DRAWS = NegotiationDraws(np.full(NUM_COSTS, 1.5), np.full(NUM_COSTS, 10e3))


def _time(how: Negotiates, num_ranks: int) -> Float64s:
    costs = stated_costs(intra=(5e3, 0.0), inter=(20e3, 0.0))
    return negotiation_ns(how, DRAWS, costs, Topology(num_ranks, 4))


def test_the_cache_is_agreed_on_by_small_allreduces() -> None:
    # A ring over 4 hosts: 24 messages inside and 6 between them.
    assert _time(Negotiates.BY_GLOO_CACHE, 16) == pytest.approx(1.5 * (24 * 5e3 + 6 * 20e3))
    # Recursive doubling: two rounds inside a host and two between hosts.
    assert _time(Negotiates.BY_MPI_CACHE, 16) == pytest.approx(1.5 * (2 * 5e3 + 2 * 20e3))


@pytest.mark.parametrize("how", list(Negotiates))
def test_the_algorithm_of_the_gradients_changes_nothing(how: Negotiates) -> None:
    costs = stated_costs(intra=(5e3, 0.0), inter=(20e3, 0.0))
    tree = with_rule(costs, always(Algorithm.TREE))
    other, own = (negotiation_ns(how, DRAWS, one, Topology(16, 4)) for one in (tree, costs))
    assert other == pytest.approx(own)


def test_without_the_cache_the_work_of_rank_0_grows_with_the_ranks() -> None:
    small, large = (_time(Negotiates.BY_GATHER, size) for size in (4, 64))

    # Two gathers and two broadcasts of two rounds each.
    assert small == pytest.approx(4 * 2 * 5e3 + 3 * 10e3)
    assert (large > small + 60 * 10e3 - 1).all()


@pytest.mark.parametrize(
    ("how", "num_ranks"), [(Negotiates.NEVER, 16), (Negotiates.BY_MPI_CACHE, 1)]
)
def test_nobody_to_agree_with(how: Negotiates, num_ranks: int) -> None:
    assert not _time(how, num_ranks).any()


def test_draws_differ() -> None:
    found = draw_negotiation(np.random.default_rng(0), 1000)

    assert 1 <= found.allreduces.min() < found.allreduces.max() <= 2
    assert found.message_ns.std() > 0
