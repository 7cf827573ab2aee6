import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.run.placement_check import refine_from_ranks
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord
from tests.builders.bench_settings import bench_settings
from tests.builders.finished_analysis import manifest
from tests.builders.recorder_lines import host_of


def _header(rank: int, given: list[int], affinity: list[int], **values: Any) -> dict[str, Any]:
    header = {
        "kind": "header",
        "rank": rank,
        "given_cores": given,
        "affinity": affinity,
        "host": host_of("node1", num_cores=4),
    }
    return header | values


def _refined(folder: Path, headers: list[dict[str, Any]], device: str = "cpu") -> PassRecord:
    paths = PassPaths(folder)
    paths.recorder_folder.mkdir()
    for header in headers:
        paths.recorder_file(header["rank"]).write_text(json.dumps(header) + "\n")
    progress = PassProgress(paths)
    progress.update()
    record = PassRecord(
        id="p",
        mode="throughput",
        size=len(headers),
        repeat=1,
        controller="mpi",
        oversubscribed=False,
        pinned=True,
        segments=[],
    )
    refine_from_ranks(record, manifest(), progress, bench_settings(device=device))
    return record


@pytest.mark.parametrize(
    ("given", "affinity", "oversubscribed", "pinned"),
    [
        ([[0, 1, 2, 3]] * 2, [[0], [1]], False, True),
        ([[0, 1, 2, 3]] * 2, [[0, 1, 2, 3]] * 2, False, False),
        # A mask from outside leaves both ranks one core, however many the host has.
        ([[0], [0]], [[0], [0]], True, False),
        ([[0], [1]], [[0], [1]], False, True),
        ([[0, 1, 2, 3]] * 5, [[0, 1, 2, 3]] * 5, True, False),
    ],
)
def test_cores(
    tmp_path: Path,
    given: list[list[int]],
    affinity: list[list[int]],
    oversubscribed: bool,
    pinned: bool,
) -> None:
    headers = [
        _header(rank, *cores) for rank, cores in enumerate(zip(given, affinity, strict=True))
    ]
    record = _refined(tmp_path, headers)
    assert (record.oversubscribed, record.pinned) == (oversubscribed, pinned)


@pytest.mark.parametrize(
    ("num_gpus", "oversubscribed"),
    [([2, 2], False), ([2, 2, 2], True), ([1, 1], False), ([None, None], False)],
)
def test_gpus(tmp_path: Path, num_gpus: list[int | None], oversubscribed: bool) -> None:
    headers = [_header(rank, [0], [0], num_gpus=count) for rank, count in enumerate(num_gpus)]
    assert _refined(tmp_path, headers, device="cuda").oversubscribed is oversubscribed
