import os
import signal
import threading
import time

import pytest

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import InterruptedRunError
from hvdprof.launch.functions.in_session import call_session
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.launch_process import Watch
from tests.builders.launches import launch_into

ENDS = [RankEnd(rank=0, value=b"", error="")]


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


@pytest.mark.timing
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
