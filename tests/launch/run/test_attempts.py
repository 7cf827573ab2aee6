import json

import pytest

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import StalledRank
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.launch.run.attempts import interrupt, settle, split_unfinished
from hvdprof.rundir.failure import Failure, FailureKind
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Status
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings
from tests.builders.stalls import stall_at_end

FAILURE = Failure(reason="rank 1 ended with exit code 3")
SCRIPT = ScriptSettings(
    command=("python", "train.py"),
)


@pytest.fixture
def recorded(tmp_path):
    """A pass of a script on two ranks, of which each has recorded its training to the end."""
    record = plan_design(bench_settings(sizes=(2,), script=SCRIPT), LOCAL_FOUR_CORES).passes[0]
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    lines = [
        {"kind": "header"},
        {"kind": "segment", "id": "main"},
        *({"kind": "step", "segment": "main", "step": step} for step in range(30)),
        {"kind": "segment_end", "id": "main"},
        {"kind": "end"},
    ]
    for rank in range(2):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (paths.recorder_folder / f"rank-{rank}.jsonl").write_text(text)
    progress = PassProgress(paths)
    progress.update()
    return record, progress


def test_a_script_that_ends_well_is_done(recorded):
    record, progress = recorded
    settle(record, progress, None, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.DONE]
    assert record.status == Status.DONE


@pytest.mark.parametrize(("least", "status"), [(25, Status.PARTIAL), (31, Status.FAILED)])
def test_the_exit_code_of_a_script_counts_also_after_its_training(recorded, least, status):
    record, progress = recorded
    settle(record, progress, FAILURE, least_steps=least)

    assert [segment.status for segment in record.segments] == [status]
    assert record.segments[0].failure == FAILURE
    assert record.status == Status.FAILED


def test_reference_models_have_a_result_once_they_are_recorded(recorded):
    record, progress = recorded
    settle(record, progress, FAILURE)

    assert [segment.status for segment in record.segments] == [Status.DONE]


def test_processes_that_are_each_a_job_of_their_own_are_named(recorded):
    record, progress = recorded
    del progress.ranks[1]
    progress.ranks[0].header = {"kind": "header", "rank": 0, "size": 1}
    settle(record, progress, None, least_steps=25)

    (segment,) = record.segments
    assert segment.status == Status.FAILED
    assert "every process was a job of its own" in segment.failure.reason
    assert "--mpi=pmix" in segment.failure.reason


@pytest.mark.parametrize(
    ("least", "status"),
    [(25, Status.PARTIAL), (31, Status.INTERRUPTED), (None, Status.INTERRUPTED)],
)
def test_an_interrupted_script_has_a_result_after_steps_enough(recorded, least, status):
    record, progress = recorded
    for state in progress.ranks.values():
        state.ended.clear()
    interrupt(record, progress, least_steps=least)

    (segment,) = record.segments
    assert (segment.status, record.status) == (status, Status.INTERRUPTED)
    assert (segment.failure is not None) == (status == Status.PARTIAL)
    again = split_unfinished(record, [record], retry_failed=True)
    assert [one.status for one in again.segments] == [Status.PLANNED]
    assert again.segments[0].failure is None


def test_what_all_ranks_had_ended_before_an_interrupt_is_done(recorded):
    record, progress = recorded
    interrupt(record, progress, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.DONE]
    assert record.segments[0].failure is None


def test_a_rank_that_recorded_nothing_leaves_an_interrupted_script_without_a_result(recorded):
    record, progress = recorded
    del progress.ranks[1]
    interrupt(record, progress, least_steps=25)

    assert [segment.status for segment in record.segments] == [Status.INTERRUPTED]


def test_a_launch_that_the_user_ended_while_ranks_hung_says_who_waited_for_whom(recorded):
    record, progress = recorded
    for state in progress.ranks.values():
        state.ended.clear()
    stall = stall_at_end(StalledRank(rank=1, state="runs", step=30, phase="data", tensors=[]), 9.0)
    interrupt(record, progress, least_steps=25, stall=stall)
    (segment,) = record.segments
    assert segment.failure is not None
    assert segment.failure.reason == f"it was interrupted; {stall.sentence()}"
    assert (segment.failure.kind, segment.failure.rank) == (FailureKind.INTERRUPTED, 1)
