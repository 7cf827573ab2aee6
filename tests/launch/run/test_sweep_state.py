from pathlib import Path

import pytest

from hvdprof.launch.launchers.batch_launch import Torchrun
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.launch.run.sweep_state import (
    RESERVE_BYTES,
    SilentProgress,
    SweepState,
    hold_disk_reserve,
    release_disk_reserve,
)
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from tests.builders.bench_settings import bench_settings
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run


def test_room_is_taken_and_given_back_once(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    hold_disk_reserve(path)
    assert path.stat().st_size == RESERVE_BYTES
    assert release_disk_reserve(path)
    assert not release_disk_reserve(path)
    assert list(tmp_path.iterdir()) == []


def test_without_disk_space_there_is_no_reserve(tmp_path: Path) -> None:
    hold_disk_reserve(tmp_path / "nowhere" / "reserve")
    assert not release_disk_reserve(tmp_path / "nowhere" / "reserve")


OF_TORCHRUN = "rank 0 raised ValueError: ...: environment variable RANK expected, but not set"
NO_MODULE = "rank 0 raised ModuleNotFoundError: No module named 'apex'"


def advice(folder: Path, *reasons: str) -> str:
    """What is advised where launches failed for these reasons; an empty one measured well."""
    passes = [
        PassSpec(
            repeat=repeat,
            segments=[
                SegmentSpec(status="failed", failure=Failure(reason=reason))
                if reason
                else SegmentSpec()
            ],
        )
        for repeat, reason in enumerate(reasons, start=1)
    ]
    paths = RunPaths(write_run(folder / "run", passes))
    command = ("python", "t.py", "--password", "x")
    settings = bench_settings(
        script=ScriptSettings(command=command),
        np="1,2",
        num_steps=None,
        output="run",
        command=command,
    )
    return SweepState(
        settings=settings,
        manifest=Manifest.read(paths.folder),
        paths=paths,
        launcher=Torchrun(),
        mpi=None,
        progress=SilentProgress(),
        environment={},
    ).after_failure()


@pytest.mark.parametrize(
    ("reasons", "launcher"),
    [
        ([NO_MODULE], ""),
        ([OF_TORCHRUN] * 2, "--launcher torchrun "),
        ([OF_TORCHRUN, NO_MODULE], ""),
    ],
)
def test_what_fails_again_is_started_again(
    tmp_path: Path, reasons: list[str], launcher: str
) -> None:
    assert advice(tmp_path, *reasons) == (
        f"Correct it, then: hvdprof run --np 1,2 {launcher}--timeout 30.0 -- "
        "python t.py --password '***'"
    )


@pytest.mark.parametrize("reasons", [[NO_MODULE, ""], ["rank 1 was ended by SIGKILL"]])
def test_what_may_pass_or_was_measured_in_part_is_resumed(
    tmp_path: Path, reasons: list[str]
) -> None:
    assert (
        advice(tmp_path, *reasons) == f"Retry them with hvdprof bench --resume {tmp_path / 'run'}"
    )
