"""Which allreduces of a run count."""

from typing import Any

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.posterior_draws import Observations, observed_allreduces
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS
from hvdprof.model.tables.sample_tables import NET_TRANSFERS
from tests.builders.collectives import collective_row
from tests.builders.net_recording import net_recording
from tests.builders.traced_run import PASS_ID, rank_row, segment_row

FOUR_ON_TWO_HOSTS = [rank_row(rank, f"h{rank // 2}") for rank in range(4)]


def _observed(
    rows: list[dict[str, Any]],
    *,
    net: bool = False,
    passes: frozenset[str] = frozenset({PASS_ID}),
    **segment: Any,
) -> Observations:
    transfers = net_transfers(net_recording())[0] if net else NET_TRANSFERS.empty()
    return observed_allreduces(
        COLLECTIVES.frame(rows),
        SEGMENTS.frame([segment_row(**({"size": 4} | segment))]),
        RANKS.frame(FOUR_ON_TWO_HOSTS),
        transfers,
        set(passes),
    )


def test_an_execution_has_the_ranks_and_hosts_of_its_launch() -> None:
    found = _observed([collective_row(1_000, 2.0), collective_row(2_000, 3.0, start_ns=5)])
    assert found.num_ranks.tolist() == [4, 4]
    assert found.ranks_per_host.tolist() == [2, 2]
    assert found.size_bytes.tolist() == [1e3, 2e3]
    assert found.time_ns.tolist() == [2e6, 3e6]
    assert not found.is_whole.any()


@pytest.mark.parametrize(
    "change",
    [{"warmup": True}, {"collective": "BROADCAST"}, {"collective": "ADASUM"}, {"transfer_ns": 0}],
)
def test_other_executions_do_not_count(change: dict[str, Any]) -> None:
    rows = [collective_row(1_000, 2.0), collective_row(2_000, 3.0, **change)]
    assert _observed(rows).size_bytes.tolist() == [1e3]


def test_an_unknown_payload_does_not_count() -> None:
    assert not len(_observed([collective_row(None, 2.0)]))


@pytest.mark.parametrize("change", [{"oversubscribed": True}, {"engine": "ddp"}, {"size": 1}])
def test_launches_that_say_nothing_on_links_do_not_count(change: dict[str, Any]) -> None:
    assert not len(_observed([collective_row(1_000, 2.0)], **change))


def test_a_pass_of_another_controller_does_not_count() -> None:
    assert not len(_observed([collective_row(1_000, 2.0)], passes=frozenset({"another"})))


def test_the_measured_network_counts_with_one_rank_per_host_and_its_cycle() -> None:
    found = _observed([collective_row(1_000, 2.0)], net=True)
    assert found.is_whole.sum() == 45
    assert set(found.num_ranks[found.is_whole]) == {2}
    assert set(found.ranks_per_host[found.is_whole]) == {1}
    # 2 ms and 10 MB/s: the smallest of net_recording() are 1024 bytes.
    smallest = found.time_ns[found.is_whole & (found.size_bytes == 1024)]
    assert np.median(smallest) == pytest.approx(2e6 + 1024 * 100)


def test_thinning_keeps_rare_payloads_whole() -> None:
    sizes = np.array([100.0] * 500 + [1e7] * 7 + [120.0] * 100)
    number = len(sizes)
    observed = Observations(
        np.full(number, 2),
        np.ones(number, dtype=np.int64),
        sizes,
        np.arange(number) + 1.0,
        np.zeros(number, dtype=np.bool_),
    )
    fewer = observed.thinned(20)
    assert (fewer.size_bytes == 1e7).sum() == 7
    assert len(fewer) == 27
    small = fewer.time_ns[fewer.size_bytes < 1e7]
    assert (small[0], small[-1]) == (1.0, float(number))
    assert np.all(np.diff(fewer.time_ns) > 0)
    nothing = Observations(
        *(np.empty(0, dtype=np.int64),) * 2, *(np.empty(0),) * 2, np.empty(0, dtype=np.bool_)
    )
    assert not len(nothing.thinned(20))
