"""Links out of NCCL's tuning table."""

from pathlib import Path

import pytest

from hvdprof.analyze.predict.nccl_estimates import nccl_estimates
from hvdprof.model.nccl_recording import NcclRecording
from tests.builders.nccl_log import job, recorded

HEADING = (
    "  Algorithm   |            Tree         |          Ring         |",
    "  Protocol    |  LL |  LL128 | Simple |  LL |  LL128 | Simple | LL | LL128 | Simple |",
)


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
