"""Simulated allreduces of known algorithm, latency and bandwidth, and what is found of them."""

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.algorithm_choice import (
    PARAMETERS,
    PRIORS,
    AlgorithmChoice,
    choose_algorithm,
)
from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Link, Topology
from hvdprof.analyze.predict.costs.cost_draws import (
    GLOO,
    OPEN_MPI_41,
    Rule,
    always,
)
from hvdprof.analyze.predict.costs.posterior_draws import Observations, Prior

INTRA = Link(8e3, 0.4)
INTER = Link(40e3, 1.0)
OVERHEAD = 20e3


def _observed(
    rule: Rule,
    random: np.random.Generator,
    *,
    sizes_of: tuple[int, ...] = (2, 4),
    local: int = 1,
    number: int = 90,
    relative: float = 0.08,
) -> Observations:
    """Times of Student's t with four degrees of freedom in the logarithm."""
    ranks = np.sort(random.choice(sizes_of, number))
    payloads = 10 ** random.uniform(2.5, 7.5, number)
    typical = [
        float(rule.cost_ns(Topology(int(n), local), INTRA, INTER, size))
        for n, size in zip(ranks, payloads, strict=True)
    ]
    times = (np.array(typical) + OVERHEAD) * np.exp(relative * random.standard_t(4, number))
    hosts = np.minimum(np.full(number, local), ranks)
    return Observations(ranks, hosts, payloads, times, np.zeros(number, dtype=np.bool_))


def _quantiles(found: AlgorithmChoice, topology: Topology, size: float) -> list[float]:
    costs = found.draws.cost_ns(topology, size)[:, 0]
    return [float(value) for value in np.quantile(costs, [0.05, 0.5, 0.95])]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "rule", [GLOO, OPEN_MPI_41, always(Algorithm.TREE), always(Algorithm.RECURSIVE_DOUBLING)]
)
def test_the_algorithm_is_found_from_times_alone(rule: Rule) -> None:
    random = np.random.default_rng(3)
    observed = _observed(rule, random, sizes_of=(2, 4, 8))
    rules = (GLOO, OPEN_MPI_41, always(Algorithm.TREE), always(Algorithm.RECURSIVE_DOUBLING))
    found = choose_algorithm(observed, random, num_draws=200, rules=rules)
    best, second = found.candidates[:2]
    assert best.rule == rule
    assert best.weight > 0.99
    assert best.aicc < second.aicc - 9
    assert best.parameters["inter_alpha"] == pytest.approx(40e3, rel=0.25)
    assert best.parameters["inter_beta"] == pytest.approx(1.0, rel=0.05)
    assert {"inter_alpha", "inter_beta"} <= set(found.informed)
    assert not {"intra_alpha", "intra_beta", "whole_overhead"} & set(found.informed)


@pytest.mark.heavy
def test_ties_at_two_ranks_follow_the_documentation() -> None:
    random = np.random.default_rng(4)
    rabenseifner = always(Algorithm.RABENSEIFNER)
    observed = _observed(GLOO, random, sizes_of=(2,))
    rules = (rabenseifner, GLOO)
    undecided = choose_algorithm(observed, random, num_draws=400, rules=rules)
    assert [one.weight for one in undecided.candidates] == pytest.approx([0.5, 0.5], abs=0.01)
    documented = choose_algorithm(observed, random, num_draws=400, rules=rules, documented=GLOO)
    assert documented.candidates[0].rule == GLOO
    assert documented.candidates[0].weight > 0.98
    # The doubt stays in the draws: 64 ranks take 126 messages in a ring, 12 with the other.
    low, _, high = _quantiles(undecided, Topology(64, 1), 1e3)
    assert high > 5 * low


@pytest.mark.heavy
def test_measured_times_overrule_the_documentation() -> None:
    random = np.random.default_rng(5)
    observed = _observed(always(Algorithm.RECURSIVE_DOUBLING), random, sizes_of=(2, 4, 8))
    rules = (GLOO, always(Algorithm.RECURSIVE_DOUBLING))
    found = choose_algorithm(observed, random, num_draws=200, rules=rules, documented=GLOO)
    assert found.candidates[0].rule.name == "recursive-doubling"


@pytest.mark.heavy
def test_links_inside_and_between_hosts_are_separated() -> None:
    random = np.random.default_rng(6)
    observed = _observed(GLOO, random, sizes_of=(2, 4, 8), local=4, number=200)
    found = choose_algorithm(observed, random, num_draws=500, rules=(GLOO,))
    values = found.candidates[0].parameters
    assert values["intra_beta"] == pytest.approx(0.4, rel=0.1)
    assert values["inter_beta"] == pytest.approx(1.0, rel=0.1)
    low, _, high = _quantiles(found, Topology(32, 4), 1e7)
    true = float(GLOO.cost_ns(Topology(32, 4), INTRA, INTER, 1e7)) + OVERHEAD
    assert low < true < high
    assert high < 1.3 * low


@pytest.mark.heavy
def test_what_was_not_measured_stays_as_wide_as_its_prior() -> None:
    random = np.random.default_rng(7)
    observed = _observed(GLOO, random, sizes_of=(2, 4), local=4)
    found = choose_algorithm(observed, random, num_draws=2_000, rules=(GLOO,))
    spread = float(np.log(found.draws.inter.beta_ns_per_byte).std())
    assert spread == pytest.approx(PRIORS["inter_beta"].log_error, rel=0.15)


@pytest.mark.heavy
def test_a_narrow_prior_is_the_measurement_of_another_tool() -> None:
    random = np.random.default_rng(8)
    observed = _observed(GLOO, random, sizes_of=(2,), local=2)
    priors = dict(PRIORS) | {"inter_beta": Prior(0.32, 0.05)}
    found = choose_algorithm(observed, random, num_draws=500, rules=(GLOO,), priors=priors)
    assert float(np.median(found.draws.inter.beta_ns_per_byte)) == pytest.approx(0.32, rel=0.02)


@pytest.mark.heavy
def test_times_with_horovods_cycle_have_an_overhead_of_their_own() -> None:
    random = np.random.default_rng(9)
    plain = _observed(GLOO, random, sizes_of=(2, 4), number=80)
    cycle = 3e6 * np.exp(0.05 * random.standard_normal(80))
    whole = Observations(
        np.concatenate([plain.num_ranks, plain.num_ranks]),
        np.concatenate([plain.ranks_per_host, plain.ranks_per_host]),
        np.concatenate([plain.size_bytes, plain.size_bytes]),
        np.concatenate([plain.time_ns, plain.time_ns + cycle]),
        np.arange(160) >= 80,
    )
    found = choose_algorithm(whole, random, num_draws=200, rules=(GLOO,))
    values = found.candidates[0].parameters
    assert values["whole_overhead"] == pytest.approx(3e6, rel=0.05)
    assert values["inter_alpha"] == pytest.approx(40e3, rel=0.25)


@pytest.mark.heavy
def test_one_rank_costs_nothing_and_the_library_s_time_counts_from_two_on() -> None:
    random = np.random.default_rng(10)
    found = choose_algorithm(_observed(GLOO, random), random, num_draws=100, rules=(GLOO,))
    assert not found.draws.cost_ns(Topology(1, 1), np.array([1e6, 1e7])).any()
    two = found.draws.cost_ns(Topology(2, 1), 0.0)[:, 0]
    messages = 2 * np.asarray(found.draws.inter.alpha_ns)
    assert two == pytest.approx(found.draws.overhead_ns + messages)


@pytest.mark.heavy
def test_single_allreduces_scatter_as_the_measured_ones() -> None:
    random = np.random.default_rng(11)
    observed = _observed(GLOO, random, number=400, relative=0.2)
    found = choose_algorithm(observed, random, num_draws=100, rules=(GLOO,))
    (first,), (stop,) = found.draws.neighbours(np.array([5e6]))
    near = found.draws.log_residuals[first:stop]
    # Student's t of four degrees has its quartiles at 0.741.
    assert np.quantile(near, [0.25, 0.75]) == pytest.approx([-0.148, 0.148], abs=0.08)


@pytest.mark.heavy
def test_correlated_observations_count_less() -> None:
    random = np.random.default_rng(12)
    plain = _observed(GLOO, random, number=200, relative=0.01)
    waves = np.repeat(random.standard_normal(20), 10) * 0.3
    slow = Observations(
        plain.num_ranks,
        plain.ranks_per_host,
        plain.size_bytes,
        plain.time_ns * np.exp(waves),
        plain.is_whole,
    )
    found = choose_algorithm(slow, random, num_draws=100, rules=(GLOO,))
    assert found.num_effective < 60
    free = choose_algorithm(plain, random, num_draws=100, rules=(GLOO,))
    assert free.num_effective > 120


@pytest.mark.slow
def test_ninety_percent_intervals_hold_the_truth_in_ninety_percent() -> None:
    """40 sweeps of other links; latency, bandwidth, and the cost at 16 ranks."""
    random = np.random.default_rng(14)
    held = []
    for _ in range(40):
        link = Link(40e3 * np.exp(random.normal()), np.exp(random.normal()))
        ranks = np.sort(random.choice([2, 4], 60))
        payloads = 10 ** random.uniform(3, 7, 60)
        typical = [
            float(GLOO.cost_ns(Topology(int(n), 1), INTRA, link, size))
            for n, size in zip(ranks, payloads, strict=True)
        ]
        times = (np.array(typical) + OVERHEAD) * np.exp(0.1 * random.standard_t(4, 60))
        observed = Observations(
            ranks, np.ones(60, dtype=np.int64), payloads, times, np.zeros(60, dtype=np.bool_)
        )
        found = choose_algorithm(observed, random, num_draws=300, rules=(GLOO,))
        predicted = found.draws.cost_ns(Topology(16, 1), np.array([1e4, 1e6]))
        true = GLOO.cost_ns(Topology(16, 1), INTRA, link, np.array([1e4, 1e6])) + OVERHEAD
        drawn = np.column_stack(
            [found.draws.inter.alpha_ns, found.draws.inter.beta_ns_per_byte, predicted]
        )
        truth = np.array([link.alpha_ns, link.beta_ns_per_byte, *true])
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        held.append((low <= truth) & (truth <= high))
    coverage = np.mean(held, axis=0)
    assert np.all((coverage >= 0.75) & (coverage <= 1.0)), coverage


def test_every_parameter_has_a_prior() -> None:
    assert tuple(PRIORS) == PARAMETERS
