"""The sampling thread: which thread it sees, how often, and how it ends."""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hvdprof.collect.lines.sampler import LineSampler, Places, SampleTaker, asked_hz
from hvdprof.collect.lines.user_code import UserCode


class Taken(SampleTaker):
    """Samples as they were taken."""

    def __init__(self, fails_at: int = -1) -> None:
        self.of = threading.get_ident()
        self.samples: list[tuple[int, int, int, int]] = []
        self.finished: list[int] = []
        self._fails_at = fails_at

    def thread(self) -> int:
        return self.of

    def take(self, now_ns: int, place: int, gap_ns: int, late_ns: int) -> None:
        if len(self.samples) == self._fails_at:
            raise OSError(28, "No space left on device")
        self.samples.append((now_ns, place, gap_ns, late_ns))

    def finish(self, now_ns: int) -> None:
        self.finished.append(now_ns)


@contextmanager
def sampled(
    thread: int, hz: float = 200, taken: Taken | None = None, report: Callable[[str], None] = print
) -> Iterator[tuple[Taken, Places]]:
    taken, places = taken or Taken(), Places(UserCode())
    taken.of = thread
    sampler = LineSampler(places, taken, hz, report)
    sampler.start()
    try:
        yield taken, places
    finally:
        sampler.close()


def slow() -> None:
    time.sleep(0.03)


def fast() -> None:
    time.sleep(0.01)


def test_lines_count_as_long_as_they_run() -> None:
    with sampled(threading.get_ident()) as (taken, places):
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            slow()
            fast()
    functions = Counter(places.names[place][2] for _, place, _, _ in taken.samples)

    assert functions["slow"] + functions["fast"] > 0.8 * len(taken.samples) > 30
    assert 1.7 < functions["slow"] / functions["fast"] < 6
    assert len(taken.finished) == 1


def test_gaps_and_delays_are_stated() -> None:
    with sampled(threading.get_ident()) as (taken, _):
        time.sleep(0.3)
        time_before = time.monotonic_ns()
        # One call into C that holds the interpreter's lock.
        pow(3, 3_000_000)
        held_ns = time.monotonic_ns() - time_before
        time.sleep(0.1)
    times = [sample[0] for sample in taken.samples]

    assert all(gap > 0 <= late for _, _, gap, late in taken.samples)
    gaps = [gap for _, _, gap, _ in taken.samples]
    assert sum(gaps[1:]) == times[-1] - times[0]
    assert len(set(gaps)) > len(gaps) // 2
    if held_ns > 100_000_000:
        assert max(late for _, _, _, late in taken.samples) > held_ns / 3


def test_other_threads_of_the_user_are_not_sampled() -> None:
    """As a checkpoint that is written in the background."""
    over = threading.Event()

    def writes_a_checkpoint() -> None:
        while not over.wait(0.001):
            pass

    thread = threading.Thread(target=writes_a_checkpoint)
    thread.start()
    with sampled(threading.get_ident()) as (taken, places):
        time.sleep(0.3)
    over.set()
    thread.join()

    own = test_other_threads_of_the_user_are_not_sampled.__qualname__
    found = Counter(places.names[place][2] for _, place, _, _ in taken.samples)
    # Besides, the thread may be in the call that ends the sampling.
    assert set(found) <= {own, "sampled"}
    assert found[own] > 5


def test_a_thread_that_has_ended_gives_no_samples() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    number = thread.ident or 0
    thread.join()

    with sampled(number, hz=500) as (taken, _):
        time.sleep(0.1)

    assert taken.samples == []
    assert len(taken.finished) == 1


def test_a_failure_ends_the_sampling_with_a_note() -> None:
    said: list[str] = []
    with sampled(threading.get_ident(), 500, Taken(fails_at=3), said.append) as (taken, _):
        time.sleep(0.2)

    assert said == [
        "lines are no longer sampled: OSError: [Errno 28] No space left on device",
    ]
    assert len(taken.samples) == 3
    assert taken.finished == []


def test_a_note_that_cannot_be_written_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: str) -> None:
        raise OSError(28, "No space left on device")

    with sampled(threading.get_ident(), 500, Taken(fails_at=0), full):
        time.sleep(0.2)

    assert "hvdprof recorder: lines are no longer sampled" in capsys.readouterr().err


def test_random_numbers_of_the_script_stay_as_they_were() -> None:
    random.seed(3)
    expected = [random.random() for _ in range(5)]
    random.seed(3)
    with sampled(threading.get_ident(), 500):
        time.sleep(0.05)
        found = [random.random() for _ in range(5)]

    assert found == expected


def test_a_forked_process_ends_without_it() -> None:
    with sampled(threading.get_ident(), 500) as (taken, _):
        child = os.fork()
        if not child:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        number = len(taken.samples)
        time.sleep(0.1)
    assert len(taken.samples) > number


END = """
import threading, time
from hvdprof.collect.lines.sampler import Places
from hvdprof.collect.lines.sampler import LineSampler, SampleTaker
from hvdprof.collect.lines.user_code import UserCode
class Taken(SampleTaker):
    def take(self, *sample): time.sleep(0.01)
    def finish(self, now_ns): print("finished")
LineSampler(Places(UserCode()), Taken(), 500).start()
time.sleep(0.1)
{end}
"""


@pytest.mark.parametrize(
    ("end", "status", "output"),
    [
        ("", 0, "finished"),
        ("raise SystemExit(3)", 3, "finished"),
        ("import os; os._exit(5)", 5, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
)
def test_a_process_ends_as_ever(end: str, status: int, output: str) -> None:
    """Also in the middle of a sample, and while the interpreter shuts down."""
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", END.format(end=end)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (status, output, "")


def test_what_the_environment_asks_for() -> None:
    assert asked_hz({}) == 20
    assert asked_hz({"HVDPROF_LINES": "0"}) == 0
    assert asked_hz({"HVDPROF_LINES": "2.5"}) == 2.5
    for wrong in ("much", "-1", "1e9", "nan"):
        with pytest.raises(ValueError):
            asked_hz({"HVDPROF_LINES": wrong})
