"""Negotiations: where executions show them, and how they grow with the number of ranks."""

from typing import Any

import numpy as np
import pytest

from hvdprof.analyze.predict.collective_cost import Topology
from hvdprof.analyze.predict.negotiation import (
    Gaps,
    Growth,
    growth_of,
    measured_gaps,
    negotiation_draws,
)
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.collectives import collective_row
from tests.builders.traced_run import PASS_ID, SEGMENT_ID

KEY = (PASS_ID, SEGMENT_ID)
CYCLE = 1e6
MS = 1_000_000


def _row(number: int, start_ms: float, length_ms: float, ready_ms: float, **values: Any) -> Any:
    return collective_row(
        1_000,
        length_ms,
        fusion_id=number,
        start_ns=round(start_ms * MS),
        dur_ns=round(length_ms * MS),
        lag_ns=round((start_ms - ready_ms) * MS),
        **values,
    )


def _measured(rows: list[Any], topology: Topology | None = None) -> Gaps:
    topologies = {KEY: topology or Topology(2, 2)}
    return measured_gaps(COLLECTIVES.frame(rows), topologies, {KEY: CYCLE})


def test_a_gradient_that_became_ready_during_an_execution_shows_the_negotiation() -> None:
    rows = [_row(0, 10.0, 5.0, 9.0), _row(1, 15.2, 5.0, 12.0)]
    found = _measured(rows, Topology(4, 2))
    assert found.time_ns.tolist() == pytest.approx([0.2 * MS])
    assert found.num_ranks.tolist() == [4]
    assert found.over_hosts.tolist() == [True]


@pytest.mark.parametrize(
    ("length_ms", "start_ms", "ready_ms"),
    [
        (5.0, 15.01, 9.5),  # Ready before the first execution: the same cycle.
        (5.0, 16.5, 15.5),  # Ready after it: a wait for the next cycle is in the gap.
        (0.5, 10.7, 10.2),  # Shorter than the cycle: the loop slept.
    ],
)
def test_other_gaps_are_no_negotiations(length_ms: float, start_ms: float, ready_ms: float) -> None:
    rows = [_row(0, 10.0, length_ms, 9.0), _row(1, start_ms, 1.0, ready_ms)]
    assert not len(_measured(rows).time_ns)


def test_warm_up_and_unknown_launches_do_not_count() -> None:
    rows = [_row(0, 10.0, 5.0, 9.0), _row(1, 15.2, 5.0, 12.0, warmup=True)]
    assert not len(_measured(rows).time_ns)
    table = COLLECTIVES.frame([_row(0, 10.0, 5.0, 9.0), _row(1, 15.2, 5.0, 12.0)])
    assert not len(measured_gaps(table, {}, {}).time_ns)


@pytest.mark.parametrize(
    ("controller", "environment", "growth"),
    [
        ("gloo", {}, Growth.RING),
        ("mpi", {}, Growth.TREE),
        ("gloo", {"HOROVOD_CACHE_CAPACITY": "0"}, Growth.GATHER),
        ("mpi", {"HOROVOD_CACHE_CAPACITY": " 0 "}, Growth.GATHER),
        ("mpi", {"HOROVOD_CACHE_CAPACITY": "1024"}, Growth.TREE),
    ],
)
def test_controller_and_cache_decide_the_growth(
    controller: str, environment: dict[str, str], growth: Growth
) -> None:
    assert growth_of(controller, environment) is growth


def test_messages_by_number_of_ranks_and_hosts() -> None:
    numbers = (1, 2, 5, 64)
    assert [Growth.TREE.messages(number) for number in numbers] == [0, 1, 3, 6]
    assert [Growth.RING.messages(number) for number in numbers] == [0, 2, 8, 126]
    assert [Growth.GATHER.messages(number) for number in numbers] == [0, 2, 5, 64]
    topology = Topology(64, 8)
    assert [growth.crossing(topology) for growth in Growth] == [3, 14, 56]
    assert [growth.crossing(Topology(8, 8)) for growth in Growth] == [0, 0, 0]


def _gaps(
    random: np.random.Generator, growth: Growth, sizes: tuple[int, ...], number: int
) -> tuple[Gaps, float, float]:
    base, message = 30e3 * np.exp(random.normal()), 20e3 * np.exp(1.2 * random.normal())
    ranks = np.sort(random.choice(sizes, number))
    typical = base + message * np.array([growth.messages(int(one)) for one in ranks])
    times = typical * np.exp(0.5 * random.standard_t(4, number))
    return Gaps(ranks, np.zeros(number, dtype=np.bool_), times), base, message


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2,), (2, 4, 8)])
def test_ninety_percent_intervals_hold_the_time_at_sixteen_ranks(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    held, widths = [], []
    for _ in range(150):
        gaps, base, message = _gaps(random, Growth.RING, sizes, 40)
        draws = negotiation_draws(gaps, Growth.RING, random, 300)
        times = draws.time_ns(Topology(16, 16))
        low, high = np.quantile(times, [0.05, 0.95])
        held.append(low <= base + 30 * message <= high)
        widths.append(np.log(high / low))
    assert 0.82 <= np.mean(held) <= 0.96
    # One number of ranks leaves the growth open, three measure it.
    assert (np.median(widths) > 1.0) == (len(sizes) == 1)


def test_without_measurements_the_priors_count() -> None:
    nothing = Gaps(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0))
    draws = negotiation_draws(nothing, Growth.TREE, np.random.default_rng(2), 4_000)
    assert draws.num_gaps == 0
    assert np.median(draws.time_ns(Topology(2, 2))) == pytest.approx(60e3, rel=0.15)
    assert not draws.time_ns(Topology(1, 1)).any()


def test_messages_between_hosts_take_longer_where_one_host_was_measured() -> None:
    random = np.random.default_rng(3)
    gaps, _, _ = _gaps(random, Growth.TREE, (2,), 40)
    draws = negotiation_draws(gaps, Growth.TREE, random, 100)
    inside = draws.time_ns(Topology(16, 4))
    assert draws.time_ns(Topology(16, 4), 10e3) == pytest.approx(inside + 2 * 10e3)
    over = Gaps(gaps.num_ranks, np.ones(40, dtype=np.bool_), gaps.time_ns)
    measured = negotiation_draws(over, Growth.TREE, random, 100)
    topology = Topology(16, 4)
    assert np.array_equal(measured.time_ns(topology, 10e3), measured.time_ns(topology))
