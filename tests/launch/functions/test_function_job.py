import pickle
import threading
import zlib

import pytest

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import StorageError, UsageError
from hvdprof.launch.functions.function_job import FunctionJob, name_of, returned
from hvdprof.launch.processes.launch_process import LaunchOutcome
from tests.builders.launches import launch_into

WELL = LaunchOutcome(exit_code=0, hung=False, duration_s=1.0)


def job_of(function=lambda: None):
    return FunctionJob.of(function, (), {})


def end_of(rank, value=None, error="", files=None):
    pickled = None if error else pickle.dumps(value)
    return RankEnd(rank=rank, value=pickled, error=error, files=files or {})


def test_functions_are_pickled_with_their_closure():
    factor = 3

    def train(rate, *, epochs):
        return rate * factor * epochs

    function, args, kwargs = pickle.loads(FunctionJob.of(train, [2], {"epochs": 5}).function)

    assert function(*args, **kwargs) == 30


def test_a_function_that_cannot_be_pickled_is_reported_before_anything_starts():
    lock = threading.Lock()

    def train():
        return lock

    with pytest.raises(UsageError, match="train cannot be sent to other processes") as raised:
        job_of(train)
    assert "inside" in raised.value.hint


def test_ranks_recognise_the_pass_folder_only_while_they_run(tmp_path):
    launch = launch_into(tmp_path, environment={"A": "1"})

    with job_of().for_ranks(launch) as recorded:
        assert launch.paths.seen_mark.read_text() == recorded.mark
        assert recorded.environment == {"A": "1"}
        assert recorded.pass_folder == str(tmp_path)
        assert "HOROVOD_TIMELINE" in recorded.unset
        assert all(recorded.python_path)
    assert not launch.paths.seen_mark.exists()


def test_what_ranks_carried_back_lies_where_they_would_have_written_it(tmp_path):
    job, launch = job_of(), launch_into(tmp_path / "03-np2-throughput-r1")
    files = {"recorder/rank-1.jsonl": zlib.compress(b"{}\n")}

    outcome = job.take_back([end_of(1, "b", files=files), end_of(0, "a")], launch, WELL)

    assert outcome == WELL
    assert launch.paths.recorder_file(1).read_bytes() == b"{}\n"
    assert returned(job.values["03-np2-throughput-r1"]) == ["a", "b"]


def test_exceptions_of_ranks_fail_the_launch_and_are_reported_per_rank(tmp_path):
    job, launch = job_of(), launch_into(tmp_path)
    error = "Traceback (most recent call last):\n  File ...\nValueError: on purpose\n"

    outcome = job.take_back([end_of(0, 7), end_of(1, error=error)], launch, WELL)

    assert outcome.exit_code == 1
    assert launch.paths.stderr.read_text().splitlines()[-1] == (
        "[1]<stderr>:ValueError: on purpose"
    )
    assert returned(job.values[tmp_path.name]) == [7, None]


def test_ranks_that_did_not_come_back_have_no_value(tmp_path):
    job, launch = job_of(), launch_into(tmp_path)

    job.take_back([end_of(1, 7)], launch, WELL)

    assert returned(job.values[tmp_path.name]) == [None, 7]


def test_nothing_is_written_outside_of_the_pass(tmp_path):
    launch = launch_into(tmp_path / "pass")
    end = end_of(0, files={"../outside": zlib.compress(b"")})

    with pytest.raises(StorageError, match="outside"):
        job_of().take_back([end], launch, WELL)
    assert not (tmp_path / "outside").exists()


def test_a_missing_folder_is_an_error(tmp_path):
    launch = launch_into(tmp_path / "pass")
    (tmp_path / "pass").rmdir()

    with pytest.raises(StorageError, match="Could not write"), job_of().for_ranks(launch):
        pass


def test_names():
    class Trainer:
        def __call__(self):
            return None

    def train():
        return None

    assert (name_of(train), name_of(Trainer())) == ("train", "Trainer")
