"""What a run says on its links, and what it does not hold.

Links out of NCCL's tuning table.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.communication.network import net_links
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.predict.costs.algorithm_choice import PRIORS
from hvdprof.analyze.predict.costs.cost_draws import GLOO, OPEN_MPI_40, OPEN_MPI_41, Rule
from hvdprof.analyze.predict.costs.link_evidence import (
    LinkEvidence,
    documented_rule,
    link_evidence,
    nccl_estimates,
)
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import RANKS
from hvdprof.model.tables.sample_tables import NET_LINKS, NET_TRANSFERS
from tests.builders.collectives import collective_row
from tests.builders.nccl_log import job, recorded
from tests.builders.net_recording import net_recording
from tests.builders.traced_run import rank_row, traced_run

ONE_HOST = RANKS.frame([rank_row(0, "h1"), rank_row(1, "h1")])
TWO_HOSTS = RANKS.frame([rank_row(0, "h1"), rank_row(1, "h2")])
HEADING = (
    "  Algorithm   |            Tree         |          Ring         |",
    "  Protocol    |  LL |  LL128 | Simple |  LL |  LL128 | Simple | LL | LL128 | Simple |",
)


def _analysis(
    sizes: list[int], *, ranks: pd.DataFrame = ONE_HOST, net: bool = False, **run: Any
) -> RunAnalysis:
    """Allreduces of 0.2 ms and 1 GB/s."""
    rows = [
        collective_row(size, 0.2 + size / 1e6, start_ns=place, fusion_id=place)
        for place, size in enumerate(sizes)
    ]
    transfers = net_transfers(net_recording())[0] if net else NET_TRANSFERS.empty()
    analysis = analyze_run(traced_run(ranks=ranks, net_transfers=transfers, **run))
    tables = {COLLECTIVES.name: COLLECTIVES.frame(rows), NET_LINKS.name: net_links(transfers)}
    return replace(analysis, derived={**analysis.derived, **tables})


def _evidence(analysis: RunAnalysis) -> LinkEvidence:
    return link_evidence(analysis, MeasureCommand("hvdprof bench --models m"), (1, 2))


def _missing(evidence: LinkEvidence) -> list[str]:
    return [one.command for one in evidence.missing]


@pytest.mark.heavy
def test_a_run_on_one_host_holds_nothing_on_the_network() -> None:
    found = _evidence(_analysis([1_000, 10_000, 100_000]))
    assert found.sources == {"intra": "measured allreduces"}
    assert not found.knows_network
    assert found.missing[0].command == "hvdprof net --hosts HOST1,HOST2"
    assert "all of its ranks were on one" in found.missing[0].what
    assert "1, 10, 25, 100 and 400 Gb/s" in found.missing[0].instead


@pytest.mark.heavy
def test_the_network_of_the_run_is_measured_by_its_allreduces_and_over_tcp() -> None:
    found = _evidence(_analysis([1_000, 10_000, 100_000], ranks=TWO_HOSTS, net=True))
    assert found.sources == {"inter": "measured allreduces"}
    # net_recording(): TCP at 0.05 ms and 25 MB/s.
    assert found.priors["inter_beta"].median == pytest.approx(40.0, rel=0.01)
    assert found.priors["inter_alpha"].median == pytest.approx(50_000 + 1024 * 40, rel=0.01)
    assert found.priors["intra_beta"] == PRIORS["intra_beta"]
    assert len(found.observations) == 3 + 45


@pytest.mark.heavy
def test_one_rank_per_host_measures_nothing_inside_a_host() -> None:
    between = _evidence(_analysis([1_000, 10_000, 100_000], ranks=TWO_HOSTS))
    assert (between.measured("intra"), between.measured("inter")) == (False, True)
    inside = _evidence(_analysis([1_000, 10_000, 100_000]))
    assert (inside.measured("intra"), inside.measured("inter")) == (True, False)


@pytest.mark.heavy
def test_a_network_measured_alone_is_known() -> None:
    found = _evidence(_analysis([], net=True))
    assert found.knows_network
    assert len(found.observations) == 45
    choice = found.choice(np.random.default_rng(0), 200)
    assert choice is not None
    # The allreduce of net_recording() has 10 MB/s: two ranks send the payload once.
    assert choice.candidates[0].parameters["inter_beta"] == pytest.approx(100, rel=0.3)


@pytest.mark.heavy
def test_one_payload_does_not_separate_latency_from_bandwidth() -> None:
    found = _evidence(_analysis([50_000] * 5))
    assert any("nearly the same payload" in one.what for one in found.missing)
    assert not any(
        "nearly the same payload" in one.what
        for one in _evidence(_analysis([1_000, 50_000])).missing
    )


@pytest.mark.heavy
def test_one_number_of_ranks_does_not_show_the_growth() -> None:
    (one,) = [one for one in _evidence(_analysis([1_000, 50_000])).missing if "--np" in one.command]
    assert "at 2 ranks alone" in one.what
    assert one.command == "hvdprof bench --models m --np 2,4"


@pytest.mark.heavy
def test_a_run_without_traces_is_assumed() -> None:
    found = _evidence(_analysis([]))
    assert len(found.observations) == 0
    assert found.choice(np.random.default_rng(0), 10) is None
    assert any("No allreduce was traced" in one.what for one in found.missing)
    assert "hvdprof bench --models m --np 1,2" in _missing(found)


def test_traces_that_time_no_allreduce_are_not_asked_for_again() -> None:
    command = MeasureCommand("hvdprof bench --models m", is_traced=True)
    missing = link_evidence(_analysis([]), command, (1, 2)).missing
    (gap,) = [one for one in missing if "allreduce" in one.what]
    assert gap.what == "No single allreduce is timed in the traced launches."
    assert gap.command == ""


@pytest.mark.parametrize(
    ("controller", "version", "rule"),
    [
        ("gloo", "openmpi 4.1.8", GLOO),
        ("gloo", "", GLOO),
        ("mpi", "openmpi 4.1.8", OPEN_MPI_41),
        ("mpi", "openmpi 5.0.3", OPEN_MPI_41),
        ("mpi", "openmpi 4.0.7", OPEN_MPI_40),
        ("mpi", "openmpi 3.1.6", OPEN_MPI_40),
        ("mpi", "openmpi", None),
        ("mpi", "mpich 4.2.1", None),
        ("mpi", "", None),
        ("", "openmpi 4.1.8", None),
    ],
)
def test_the_library_documents_its_rule(controller: str, version: str, rule: Rule | None) -> None:
    assert documented_rule(controller, version) == rule


def _recording(folder: Path, *, num_ranks: int, cell: str) -> NcclRecording:
    row = f"     AllReduce | 8.0/ 1.9 | 1.0/ 2.0 | 3.0/ 4.0 | 5.0/ 6.0 | 7.0/ 8.0 | {cell} |"
    return recorded(folder, job(num_ranks=num_ranks, extra=(*HEADING, row)))


def test_a_ring_inside_a_host_gives_its_links(tmp_path: Path) -> None:
    # Two ranks on one host: two messages of 3.4 us, and all of the payload once.
    found = nccl_estimates([_recording(tmp_path, num_ranks=2, cell="15.2/ 100.0")])
    assert set(found) == {"intra_alpha", "intra_beta"}
    assert found["intra_alpha"].median == pytest.approx(3_400)
    assert found["intra_beta"].median == pytest.approx(0.01)


def test_a_ring_over_hosts_gives_the_network(tmp_path: Path) -> None:
    # Four ranks on two hosts: 8.4 us, four hops of 3.4 us inside and two of 14 us between them.
    cell = f"{8.4 + 4 * 3.4 + 2 * 14.0:.1f}/ 8.0"
    found = nccl_estimates([_recording(tmp_path, num_ranks=4, cell=cell)])
    assert set(found) == {"inter_alpha", "inter_beta"}
    assert found["inter_alpha"].median == pytest.approx(14_000)
    # 8 GB/s of payload are 12 GB/s on the network: 2 * 3/4 of the payload.
    assert found["inter_beta"].median == pytest.approx(1 / 12)


def test_a_latency_below_the_base_gives_the_bandwidth_alone(tmp_path: Path) -> None:
    found = nccl_estimates([_recording(tmp_path, num_ranks=2, cell="6.0/ 100.0")])
    assert set(found) == {"intra_beta"}


@pytest.mark.heavy
def test_a_combination_that_is_off_and_a_log_without_table_give_nothing(tmp_path: Path) -> None:
    off = tmp_path / "off"
    off.mkdir()
    assert nccl_estimates([_recording(off, num_ranks=2, cell="15.2/ 0.0")]) == {}
    assert nccl_estimates([recorded(tmp_path, job())]) == {}
    assert nccl_estimates([]) == {}
