import os
import pickle
import signal
import threading
import time
import zlib

import pytest

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import InterruptedRunError, StorageError, UsageError
from hvdprof.launch.functions.function_job import FunctionJob, call_session, name_of, returned
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.launch_process import LaunchOutcome, Watch
from tests.builders.launches import launch_into

WELL = LaunchOutcome(exit_code=0, hung=False, duration_s=1.0)

ENDS = [RankEnd(rank=0, value=b"", error="")]


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


def nothing():
    return None


class Standing:
    """A call that blocks until it is ended."""

    def __init__(self):
        self.has_ended = threading.Event()

    def __call__(self):
        assert self.has_ended.wait(30)
        raise RuntimeError("the job was cancelled")

    def end(self):
        self.has_ended.set()


def test_a_call_that_ends_well(tmp_path):
    ended = call_session(lambda: ENDS, launch_into(tmp_path), nothing)

    assert (ended.outcome.exit_code, ended.outcome.hung) == (0, False)
    assert list(ended.ends) == ENDS


def test_what_a_session_raises_is_the_end_of_the_launch_and_among_its_errors(tmp_path):
    def failing():
        raise RuntimeError("Process name: 1\nExit code: 137")

    launch = launch_into(tmp_path)
    ended = call_session(failing, launch, nothing)

    assert (ended.outcome.exit_code, list(ended.ends)) == (1, [])
    assert "RuntimeError: Process name: 1" in launch.paths.stderr.read_text()


@pytest.mark.slow
def test_a_stalled_launch_is_ended(tmp_path):
    standing = Standing()
    watch = Watch(progress=lambda: 5, timeout_s=0.6)

    ended = call_session(standing, launch_into(tmp_path, watch=watch), standing.end)

    assert ended.outcome.hung
    assert ended.outcome.duration_s >= 0.6


def test_a_launch_that_has_to_end_is_ended_at_once(tmp_path):
    standing = Standing()
    watch = Watch(progress=lambda: 5, timeout_s=60.0, must_end=lambda: True)

    assert call_session(standing, launch_into(tmp_path, watch=watch), standing.end).outcome.hung


@pytest.mark.slow
def test_ranks_that_record_elsewhere_are_not_taken_for_hung(tmp_path):
    def slow():
        time.sleep(1.6)
        return ENDS

    watch = Watch(progress=lambda: 0, timeout_s=0.5)

    assert not call_session(slow, launch_into(tmp_path, watch=watch), nothing).outcome.hung


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_even_when_the_session_handles_it(tmp_path, number):
    def with_handlers_of_its_own():
        came = threading.Event()
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: came.set())
        os.kill(os.getpid(), number)
        assert came.wait(60)
        raise RuntimeError("terminated")

    former = signal.getsignal(number)
    has_ended = threading.Event()

    with pytest.raises(InterruptedRunError, match=number.name):
        call_session(with_handlers_of_its_own, launch_into(tmp_path), has_ended.set)
    assert has_ended.is_set()
    assert signal.getsignal(number) is former


@pytest.mark.waits
def test_a_session_that_lets_itself_be_interrupted_by_ctrl_c_alone(tmp_path):
    def swallowing():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            raise
        except BaseException:
            time.sleep(20)
        return ENDS

    begin = time.monotonic()
    with pytest.raises(InterruptedRunError, match="SIGTERM"):
        call_session(swallowing, launch_into(tmp_path), nothing)
    assert time.monotonic() - begin < 5


def test_a_session_may_be_called_on_another_thread(tmp_path):
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(call_session(lambda: ENDS, launch_into(tmp_path), nothing))
    )
    thread.start()
    thread.join(30)

    assert seen[0].outcome.exit_code == 0


def test_who_presses_ctrl_c_twice_leaves_no_ranks_behind(tmp_path):
    ended = []

    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)

    def end():
        ended.append("begun")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        ended.append("done")

    with pytest.raises(InterruptedRunError), interruptible():
        call_session(interrupted, launch_into(tmp_path), end)

    assert ended == ["begun", "begun", "done"]
