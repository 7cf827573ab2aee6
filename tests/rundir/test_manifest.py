import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import (
    MANIFEST_SCHEMA_VERSION,
    Manifest,
    Mode,
    PassRecord,
    SegmentRecord,
    Skipped,
    Status,
)
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, Plan
from tests.builders.training_job import segment

SEGMENT = segment(
    "mnist-none-average",
    batch_size=64,
    num_warmup_batches=3,
    num_steps=None,
    max_seconds=2.0,
)


def _manifest() -> Manifest:
    failure = Failure(reason="rank 1 was ended by SIGKILL", rank=1, signal="SIGKILL", lines=["x"])
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version="0.1.0",
        name="bench",
        created_at="2026-11-20T22:48:41+00:00",
        command=["hvdprof", "bench"],
        settings={"sizes": [1, 2], "hosts": None},
        environment={"NCCL_DEBUG": "INFO"},
        versions={"torch": "2.13.0"},
        hosts=[{"hostname": "node1", "num_cores": 2}],
        git={"commit": "abc", "dirty": True},
        passes=[
            PassRecord(
                id="01-np2-throughput-r1",
                mode=Mode.THROUGHPUT,
                size=2,
                repeat=1,
                controller="mpi",
                oversubscribed=False,
                pinned=True,
                segments=[
                    SegmentRecord(segment=SEGMENT, status=Status.FAILED, failure=failure),
                    SegmentRecord(segment=SEGMENT),
                ],
                status=Status.FAILED,
                exit_code=137,
            )
        ],
        skipped=[
            Skipped(model="mnist", size=1, compression="fp16", reduction="average", reason="why")
        ],
        status=Status.FAILED,
    )


def test_a_manifest_survives_the_disk(tmp_path: Path) -> None:
    _manifest().write(RunPaths(tmp_path))
    assert Manifest.read(tmp_path) == _manifest()


def test_a_plan_survives_the_disk(tmp_path: Path) -> None:
    plan = Plan(
        schema_version=PLAN_SCHEMA_VERSION,
        pass_id="p",
        mode="throughput",
        size=2,
        num_threads=1,
        pin_cores=True,
        device="cpu",
        data="synthetic",
        data_dir=None,
        seed=42,
        segments=[SEGMENT],
    )
    plan.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == plan


def _changed(folder: Path, **changes: Any) -> Path:
    _manifest().write(RunPaths(folder))
    path = RunPaths(folder).manifest
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in data.items() if v != "DROP"}))
    return folder


def test_keys_of_a_later_minor_version_are_ignored(tmp_path: Path) -> None:
    assert Manifest.read(_changed(tmp_path, later={"a": 1})) == _manifest()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"passes": "DROP"}, "manifest.json has no 'passes'"),
        ({"passes": [{"id": "p"}]}, r"manifest.json.passes\[0\] has no 'mode'"),
        ({"name": 3}, "manifest.json.name is int, not str"),
        ({"schema_version": True}, "schema_version is bool, not int"),
        ({"hosts": {}}, "hosts is dict, not list"),
        ({"schema_version": 99}, "schema version 99"),
        ({"settings": {"batch_size": 10**30}}, "more than 64 bits"),
    ],
)
def test_damage_is_named_where_it_is(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnreadableInputError, match=message):
        Manifest.read(_changed(tmp_path, **changes))


def test_a_manifest_cut_anywhere_is_one_message(tmp_path: Path) -> None:
    _manifest().write(RunPaths(tmp_path))
    path = RunPaths(tmp_path).manifest
    text = path.read_text()
    for end in range(0, len(text.rstrip()) - 1, 97):
        path.write_text(text[:end])
        with pytest.raises(UnreadableInputError, match=r"manifest\.json is damaged") as raised:
            Manifest.read(tmp_path)
        assert "copy it again" in raised.value.hint


def test_a_folder_without_a_manifest_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="not a run directory") as raised:
        Manifest.read(tmp_path)
    assert "hvdprof bench" in raised.value.hint


def test_recorder_files_are_listed_by_rank(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    for rank in (10, 2, 0):
        paths.recorder_file(rank).touch()
    (paths.recorder_folder / "rank-x.jsonl").touch()
    names = [path.name for path in paths.recorder_files()]
    assert names == ["rank-0.jsonl", "rank-2.jsonl", "rank-10.jsonl"]


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"script": None}, "hvdprof bench --resume 'my run'"),
        ({"script": {"is_function": False}}, "hvdprof run --resume 'my run'"),
        ({"script": {"is_function": True}}, "FunctionRunner(...).run(...)"),
    ],
)
def test_the_resume_command_is_that_of_the_run(settings: dict[str, Any], command: str) -> None:
    assert replace(_manifest(), settings=settings).resume_command(Path("my run")) == command


@pytest.mark.parametrize("name", ["../../../escape/01", "/etc", "a\x1b[2Jb"])
@pytest.mark.parametrize("part", ["pass", "segment", "host"])
def test_names_that_lead_out_of_the_run_are_refused(tmp_path: Path, name: str, part: str) -> None:
    manifest = _manifest()
    record = manifest.passes[0]
    if part == "pass":
        record.id = name
    elif part == "segment":
        record.segments[0].segment = replace(SEGMENT, id=name)
    else:
        record.left_behind = ["-oProxyCommand=touch x"]
    manifest.write(RunPaths(tmp_path))
    with pytest.raises(UnreadableInputError, match="no plain name"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("size", [-1, 10**9, 2**62])
def test_a_number_of_ranks_that_no_job_has_is_refused(tmp_path: Path, size: int) -> None:
    manifest = _manifest()
    manifest.passes[0].size = size
    manifest.write(RunPaths(tmp_path))
    with pytest.raises(UnreadableInputError, match=f"has {size} ranks"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    "changed", [{"settings": {"script": "x"}}, {"hosts": [{"num_cores": "x"}]}]
)
def test_values_of_another_type_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    manifest = _manifest()
    manifest.write(RunPaths(tmp_path))
    path = RunPaths(tmp_path).manifest
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(UnreadableInputError, match="is no"):
        Manifest.read(tmp_path)
