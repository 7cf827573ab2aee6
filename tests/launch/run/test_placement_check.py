import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.run.session_passes import refine_from_ranks
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, SegmentRecord
from hvdprof.rundir.plan import Segment
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


def _record(size: int, segments: Sequence[SegmentRecord]) -> PassRecord:
    return PassRecord(
        id="p",
        mode="throughput",
        size=size,
        repeat=1,
        controller="mpi",
        oversubscribed=False,
        pinned=True,
        segments=list(segments),
    )


def launch(engine: str, status: str) -> PassRecord:
    one = _record(2, [SegmentRecord(segment=segment(engine, timeline=False))])
    return replace(one, status=status)


def _refined(
    folder: Path,
    headers: list[dict[str, Any]],
    device: str = "cpu",
    segments: Sequence[SegmentRecord] = (),
    others: Sequence[PassRecord] = (),
    size: int | None = None,
) -> PassRecord:
    paths = PassPaths(folder)
    paths.recorder_folder.mkdir()
    for header in headers:
        paths.recorder_file(header["rank"]).write_text(json.dumps(header) + "\n")
    progress = PassProgress(paths)
    progress.update()
    record = _record(size or len(headers), segments)
    whole = replace(manifest(), passes=[record, *others])
    refine_from_ranks(record, whole, progress, bench_settings(device=device))
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


@pytest.mark.parametrize(("size", "oversubscribed"), [(2, False), (3, True)])
def test_replicas_of_one_process_share_its_cores(
    tmp_path: Path, size: int, oversubscribed: bool
) -> None:
    one = [SegmentRecord(segment=segment("tf-multiworker", timeline=False))]
    planned = launch("tf-multiworker", "planned")
    header = _header(0, [0, 1], [0, 1], engine="tf-mirrored")
    record = _refined(tmp_path, [header], segments=one, others=[planned], size=size)
    assert record.oversubscribed is oversubscribed
    assert record.pinned is not oversubscribed
    # What the script makes is known to its ranks alone.
    assert record.engine == planned.engine == "tf-mirrored"


@pytest.mark.parametrize(("cores", "oversubscribed"), [(4, False), (3, True)])
def test_a_coordinator_counts_for_all_processes_of_its_job(
    tmp_path: Path, cores: int, oversubscribed: bool
) -> None:
    one = [SegmentRecord(segment=segment("tf-parameter-server", timeline=False))]
    header = _header(0, list(range(cores)), list(range(cores)), engine="tf-parameter-server")
    record = _refined(tmp_path, [header], segments=one, size=2)
    assert record.oversubscribed is oversubscribed
    assert not record.pinned


@pytest.mark.parametrize(
    ("gpus", "num_seen", "oversubscribed"),
    [
        (["a", "b"], 2, False),
        (["a", "b", "b"], 2, True),
        (["a", "a"], 1, True),
        # These do not take turns by need: each sees a GPU that is idle.
        (["a", "a"], 2, False),
    ],
)
def test_gpus(tmp_path: Path, gpus: list[str], num_seen: int, oversubscribed: bool) -> None:
    headers = [
        _header(rank, [0], [0], device="cuda:0", gpu=gpu, num_gpus=num_seen)
        for rank, gpu in enumerate(gpus)
    ]
    assert _refined(tmp_path, headers, device="cuda").oversubscribed is oversubscribed


@pytest.mark.parametrize(
    ("engine", "backends", "controller"),
    [("ddp", "gloo gloo", "gloo"), ("ddp", "gloo nccl", "mpi"), ("horovod", "nccl nccl", "mpi")],
)
def test_ranks_of_torch_distributed_state_what_reduces(
    tmp_path: Path, engine: str, backends: str, controller: str
) -> None:
    planned = SegmentRecord(segment=segment(engine, timeline=False))
    own = {} if engine == "horovod" else {"engine": engine}
    headers = [
        _header(rank, [0], [0], backend=name, **own) for rank, name in enumerate(backends.split())
    ]
    assert _refined(tmp_path, headers, segments=[planned]).controller == controller


def test_a_script_of_ddp_that_mpirun_started_is_named_by_its_ranks(tmp_path: Path) -> None:
    planned = SegmentRecord(segment=segment("horovod", timeline=True))
    headers = [_header(rank, [0, 1], [0, 1], engine="ddp") for rank in (0, 1)]

    record = _refined(tmp_path, headers, segments=[planned])

    assert record.engine == "ddp"
    assert not record.segments[0].segment.timeline


@pytest.mark.parametrize("engine", ["ddp", "fsdp", "collectives"])
def test_the_ranks_of_torchrun_name_their_launch_and_those_that_are_planned(
    tmp_path: Path, engine: str
) -> None:
    planned = SegmentRecord(segment=segment("collectives", timeline=False))
    headers = [_header(rank, [0, 1], [0, 1], engine=engine) for rank in (0, 1)]
    others = [
        launch("collectives", "done"),
        launch("horovod", "planned"),
        launch("collectives", "planned"),
    ]

    record = _refined(tmp_path, headers, segments=[planned], others=others)

    assert record.engine == engine
    assert [one.engine for one in others] == ["collectives", "horovod", engine]


def test_one_rank_alone_does_not_name_the_engine(tmp_path: Path) -> None:
    planned = SegmentRecord(segment=segment("horovod", timeline=True))
    headers = [_header(0, [0, 1], [0, 1], engine="ddp"), _header(1, [0, 1], [0, 1])]

    assert _refined(tmp_path, headers, segments=[planned]).engine == "horovod"


def segment(engine: str, *, timeline: bool) -> Segment:
    return Segment(
        id="main",
        engine=engine,
        model="train",
        compression="none",
        reduction="average",
        batch_size=0,
        image_size=0,
        num_warmup_batches=5,
        num_steps=None,
        max_seconds=None,
        timeline=timeline,
    )
