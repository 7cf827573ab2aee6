import json
from pathlib import Path

import pytest

from hvdprof.launch.diagnose.stall_watch import StallWatch
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.launch.run.attempts import split_unfinished
from hvdprof.launch.run.session_passes import (
    ElasticProgress,
    SessionStalls,
    add_sessions,
    end_sessions,
    place_after,
    recover_sessions,
    settle_sessions,
)
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status, WorkerEnd
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings
from tests.builders.recorder_lines import host_of

SETTINGS = bench_settings(
    sizes=(1,),
    controller="gloo",
    script=ScriptSettings(command=("python", "train.py")),
    host_discovery_script="./discover.sh",
    max_np=4,
)


@pytest.fixture
def manifest():
    return Manifest(
        schema_version=1,
        hvdprof_version="0",
        name="test",
        created_at="2026-11-20T22:48:41+00:00",
        command=[],
        settings={},
        environment={},
        versions={},
        hosts=[host_of("node1")],
        git=None,
        passes=plan_design(SETTINGS, LOCAL_FOUR_CORES).passes,
        skipped=[],
    )


@pytest.fixture
def launch(manifest):
    return manifest.passes[0]


@pytest.fixture
def progress(tmp_path, launch):
    return ElasticProgress(RunPaths(tmp_path).of_pass(launch.id))


def write_session(folder: Path, launch, number: int, steps: list[int]) -> None:
    """A session with as many ranks as numbers of steps."""
    paths = RunPaths(folder).of_pass(launch.id).session(number)
    paths.recorder_folder.mkdir(parents=True, exist_ok=True)
    for rank, num_steps in enumerate(steps):
        lines = [
            {
                "kind": "header",
                "rank": rank,
                "size": len(steps),
                "affinity": [rank],
                "host": host_of("node1"),
            },
            {"kind": "segment", "id": "main", "tensors": []},
            *({"kind": "step", "step": step} for step in range(num_steps)),
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        paths.recorder_file(rank).write_text(text)


def test_an_elastic_job_is_planned_once_in_each_mode(manifest):
    assert [(one.id, one.session) for one in manifest.passes] == [
        ("01-elastic-throughput-r1", 0),
        ("02-elastic-trace-r1", 0),
    ]


def test_sessions_become_passes_behind_their_launch_as_they_begin(
    tmp_path, manifest, launch, progress
):
    write_session(tmp_path, launch, 1, [3])
    progress.update()
    assert add_sessions(manifest, launch, progress)
    assert not add_sessions(manifest, launch, progress)
    write_session(tmp_path, launch, 2, [4, 5])
    progress.update()
    assert add_sessions(manifest, launch, progress)

    found = [(one.id, one.session, one.size, one.status) for one in manifest.passes]
    assert found[1:3] == [
        ("01-elastic-throughput-r1-session1", 1, 1, Status.RUNNING),
        ("01-elastic-throughput-r1-session2", 2, 2, Status.RUNNING),
    ]
    assert found[3][0] == "02-elastic-trace-r1"
    assert sorted(progress.ranks) == [0, 1]


def test_the_success_of_a_launch_is_read_from_its_sessions(tmp_path, manifest, launch, progress):
    write_session(tmp_path, launch, 1, [3])
    write_session(tmp_path, launch, 2, [4, 5])
    launch.other_cpu_cores, launch.steal_share = 1.8, 0.1
    progress.update()
    settle_sessions(manifest, launch, progress, SETTINGS, None)

    load = [(one.other_cpu_cores, one.steal_share) for one in manifest.passes[:3]]
    assert load == [(1.8, 0.1)] * 3
    assert (launch.status, launch.segments) == (Status.DONE, [])
    assert [one.segments[0].status for one in manifest.passes[1:3]] == [Status.DONE] * 2


@pytest.mark.parametrize(("steps", "status"), [(3, Status.PARTIAL), (2, Status.FAILED)])
def test_a_launch_that_failed_keeps_the_failure_and_its_sessions_their_steps(
    tmp_path, manifest, launch, progress, steps, status
):
    write_session(tmp_path, launch, 1, [9, steps])
    progress.update()
    failure = Failure(reason="on purpose")
    settle_sessions(manifest, launch, progress, SETTINGS, failure)

    assert launch.status == Status.FAILED
    assert [(one.status, one.failure) for one in launch.segments] == [(status, failure)]
    assert manifest.passes[1].segments[0].status == Status.DONE


def test_sessions_without_an_observed_end_stay_as_they_were_recorded(
    tmp_path, manifest, launch, progress
):
    write_session(tmp_path, launch, 1, [3])
    progress.update()
    add_sessions(manifest, launch, progress)
    launch.status = Status.RUNNING
    # hvdprof was killed; the job went on for a while, and came into another session.
    write_session(tmp_path, launch, 1, [9])
    write_session(tmp_path, launch, 2, [4, 5])
    recover_sessions(manifest, RunPaths(tmp_path), SETTINGS)

    sessions = manifest.passes[1:3]
    assert [(one.session, one.size, one.status) for one in sessions] == [
        (1, 1, Status.DONE),
        (2, 2, Status.DONE),
    ]
    assert all(
        split_unfinished(one, manifest.passes, retry_failed=True) is None for one in sessions
    )
    again = split_unfinished(launch, manifest.passes, retry_failed=True)
    assert again.id == f"{launch.id}-attempt2"


def test_launches_that_have_ended_or_not_begun_have_nothing_to_recover(tmp_path, manifest, launch):
    launch.status = Status.DONE
    before = list(manifest.passes)
    recover_sessions(manifest, RunPaths(tmp_path), SETTINGS)

    assert manifest.passes == before


def test_the_next_attempt_stands_behind_the_sessions_and_knows_nothing_of_their_ends(
    tmp_path, manifest, launch, progress
):
    write_session(tmp_path, launch, 1, [9, 3])
    progress.update()
    launch.worker_ends = [WorkerEnd(rank=1, exit_code=137)]
    settle_sessions(manifest, launch, progress, SETTINGS, Failure(reason="on purpose"))

    assert split_unfinished(manifest.passes[1], manifest.passes, retry_failed=True) is None
    attempt = split_unfinished(launch, manifest.passes, retry_failed=True)
    assert (attempt.session, attempt.worker_ends) == (0, [])
    assert place_after(manifest, launch) == 2
    assert place_after(manifest, manifest.passes[2]) == 3


def test_a_launch_without_a_session_failed(manifest, launch, progress):
    settle_sessions(manifest, launch, progress, SETTINGS, None)

    (segment,) = launch.segments
    assert segment.status == Status.FAILED
    assert "hvd.elastic.run" in segment.failure.reason


def test_a_launch_that_is_broken_off_keeps_its_sessions(tmp_path, manifest, launch, progress):
    write_session(tmp_path, launch, 1, [3])
    progress.update()

    assert end_sessions(manifest, launch, progress, SETTINGS) == 3
    assert manifest.passes[1].status == Status.DONE
    assert progress.ended_segments(1) == set()


def test_stalls_are_looked_for_in_the_latest_session(tmp_path, launch, progress):
    watched = []

    def watch(paths, size):
        watched.append((paths.folder.name, size))
        return StallWatch(paths, size, warn_s=1.0, kill_s=None, on_stall=lambda _: None)

    stalls = SessionStalls(progress, RunPaths(tmp_path).of_pass(launch.id), watch)
    stalls.look()
    for number, steps in ((1, [1]), (2, [1, 1])):
        write_session(tmp_path, launch, number, steps)
        progress.update()
        stalls.look()
        stalls.look()
    stalls.finish()

    head = "01-elastic-throughput-r1-session"
    assert watched == [(f"{head}1", 1), (f"{head}2", 2)]
    assert (stalls.must_end, stalls.failure()) == (False, None)
