"""Ranks that share a GPU, by UUIDs, and by numbers where an older recorder stated none."""

from dataclasses import replace

import pytest

from hvdprof.rundir.gpu_crowd import GpuCrowd, GpuRank, gpu_crowd, of_header
from tests.builders.finished_analysis import manifest


def crowd(*ranks: tuple[str, int], num_listed: int = 0, launcher: str = "auto") -> GpuCrowd | None:
    """Of ranks of one host, each with its GPU and the GPUs that it sees."""
    host = {"hostname": "node1", "gpus": [{"index": index} for index in range(num_listed)]}
    run = replace(manifest(), hosts=[host], settings={"launcher": launcher})
    return gpu_crowd([GpuRank("node1", *rank) for rank in ranks], run)


@pytest.mark.parametrize(
    ("ranks", "num_listed", "expected"),
    [
        ([("a", 1), ("b", 1)], 1, None),
        ([("a", 1), ("a", 1)], 8, GpuCrowd(2, 1, 1)),
        ([("a", 2), ("a", 2)], 2, GpuCrowd(2, 1, 2)),
        ([("", 1), ("", 1)], 1, GpuCrowd(2, 1, 1)),
        ([("", 1), ("", 1)], 2, None),
        # One GPU made visible to each rank: which one is unknown.
        ([("", 1), ("", 1)], 0, None),
        ([("", 2), ("", 2), ("", 2)], 0, GpuCrowd(3, 2, 2)),
        ([("a", 1), ("", 1)], 2, None),
    ],
)
def test_uuids_decide_before_numbers(
    ranks: list[tuple[str, int]], num_listed: int, expected: GpuCrowd | None
) -> None:
    assert crowd(*ranks, num_listed=num_listed) == expected


def test_under_srun_the_tools_of_a_rank_may_list_its_own_gpu_alone() -> None:
    assert crowd(("", 1), ("", 1), num_listed=1, launcher="srun") is None


def test_ranks_of_other_hosts_and_on_cpus_share_nothing() -> None:
    on_cpu = of_header({"device": "cpu", "num_gpus": None}, "node1")
    assert on_cpu is None
    apart = [GpuRank("node1", "a", 1), GpuRank("node2", "a", 1), on_cpu]
    assert gpu_crowd(apart, manifest()) is None


def test_the_text_says_whether_the_ranks_see_enough() -> None:
    assert GpuCrowd(2, 1, 1).text == "2 ranks share 1 GPU"
    assert GpuCrowd(4, 2, 4).text == "4 ranks share 2 GPUs of the 4 that each sees"
    assert (GpuCrowd(2, 1, 1).is_misplaced, GpuCrowd(4, 2, 4).is_misplaced) == (False, True)
