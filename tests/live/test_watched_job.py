"""Which recordings are followed."""

import os

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.live.watched_job import WatchedJob
from tests.builders.run_directory import PassSpec, write_run


def test_a_folder_is_followed_before_it_holds_anything(tmp_path):
    job = WatchedJob(tmp_path)
    recordings = job.latest()
    assert recordings is not None
    assert recordings.files() == {}
    for name in ("rank-0.jsonl", "rank-12.jsonl", "rank-x.jsonl", "lines-0.jsonl"):
        (tmp_path / name).touch()
    assert sorted(recordings.files()) == [0, 12]
    assert not job.is_over()


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(UnreadableInputError, match="is no folder"):
        WatchedJob(tmp_path / "none")


def test_a_run_is_followed_launch_after_launch_and_over_by_its_manifest(tmp_path):
    run = write_run(tmp_path / "run", [PassSpec(size=2), PassSpec(size=2)])
    first, second = sorted(run.glob("passes/*/recorder/rank-0.jsonl"))
    os.utime(first, (2000, 2000))
    os.utime(second, (1000, 1000))
    job = WatchedJob(run)
    latest = job.latest()
    assert latest is not None
    assert latest.folder == first.parent
    assert latest.name == f"run/{first.parent.parent.name}"
    os.utime(second, (3000, 3000))
    # Both have been seen: launches that take turns are not swapped.
    assert job.latest() == latest
    assert job.is_over()


def test_a_launch_is_followed_where_rank_0_is_on_a_host_that_is_not_seen(tmp_path):
    run = write_run(tmp_path / "run", [PassSpec(size=2)])
    (first,) = run.glob("passes/*/recorder/rank-0.jsonl")
    first.unlink()
    latest = WatchedJob(run).latest()
    assert latest is not None
    assert sorted(latest.files()) == [1]


def test_a_launch_of_a_run_can_be_named(tmp_path):
    run = write_run(tmp_path / "run", [PassSpec(size=2)])
    (folder,) = run.glob("passes/*")
    latest = WatchedJob(folder).latest()
    assert latest is not None
    assert (latest.folder, sorted(latest.files())) == (folder / "recorder", [0, 1])
    assert latest.events == folder / "events.jsonl"
