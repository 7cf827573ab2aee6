"""Sinks that fail or hang neither delay nor end the watcher."""

import threading
import time

import pytest

from hvdprof.live.sinks.fail_open import MOST_EVENTS, FailOpen, Sink
from tests.builders.watched_job import event, snapshot


class Recording(Sink):
    """Keeps what it gets; can be held, and can fail."""

    name = "--to test"
    where = "here"

    def __init__(self, failing=(), *, held=False):
        self.calls: list = []
        self.free = threading.Event()
        self.entered = threading.Event()
        self.failing = failing
        self.report = lambda event: self._take(f"event {event.number}")
        if not held:
            self.free.set()

    def show(self, snapshot):
        self._take(snapshot.step)

    def close(self):
        self.calls.append("close")

    def _take(self, what):
        self.entered.set()
        assert self.free.wait(30)
        self.calls.append(what)
        if what in self.failing:
            raise ValueError(f"no {what} with token=abcdef0123456789")


@pytest.fixture
def warnings():
    return []


def _wait(is_so) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_everything_arrives_in_order_and_the_sink_is_closed(warnings):
    sink = Recording()
    guard = FailOpen(sink, warnings.append)
    guard.show(snapshot(step=1))
    _wait(lambda: sink.calls == [1])
    guard.report(event(number=1))
    _wait(lambda: sink.calls == [1, "event 1"])
    guard.show(snapshot(step=2))
    guard.close()
    assert sink.calls == [1, "event 1", 2, "close"]
    assert (warnings, guard.num_failures, guard.is_dropped) == ([], 0, False)
    assert (guard.name, guard.where) == ("--to test", "here")


def test_a_newer_snapshot_replaces_one_and_events_stay(warnings):
    sink = Recording(held=True)
    guard = FailOpen(sink, warnings.append, limit_s=60)
    guard.show(snapshot(step=1))
    assert sink.entered.wait(20)
    for step in (2, 3, 4):
        guard.show(snapshot(step=step))
        guard.report(event(number=step))
    sink.free.set()
    guard.close()
    assert sink.calls == [1, "event 2", "event 3", "event 4", 4, "close"]
    assert warnings == []


def test_the_queue_of_events_is_bounded_and_says_so(warnings):
    sink = Recording(held=True)
    guard = FailOpen(sink, warnings.append, limit_s=60)
    guard.show(snapshot())
    assert sink.entered.wait(20)
    for number in range(MOST_EVENTS + 5):
        guard.report(event(number=number))
    sink.free.set()
    guard.close()
    assert guard.num_lost_events == 5
    assert warnings == ["--to test did not take 5 events."]
    assert f"event {MOST_EVENTS - 1}" in sink.calls


def test_the_first_failure_is_a_warning_without_secrets(warnings):
    sink = Recording(failing={1, 3})
    guard = FailOpen(sink, warnings.append)
    for step in (1, 2, 3, 4):
        guard.show(snapshot(step=step))
        _wait(lambda step=step: step in sink.calls)
    guard.close()
    assert warnings == ["--to test failed: no 1 with token=***."]
    assert (guard.num_failures, guard.is_dropped) == (2, False)


def test_three_failures_in_a_row_drop_the_sink(warnings):
    sink = Recording(failing=range(100))
    guard = FailOpen(sink, warnings.append)
    for step in (1, 2, 3):
        guard.show(snapshot(step=step))
        _wait(lambda step=step: guard.num_failures == step)
    _wait(lambda: sink.calls == [1, 2, 3, "close"])
    guard.show(snapshot(step=4))
    guard.report(event())
    guard.close()
    assert sink.calls == [1, 2, 3, "close"]
    assert guard.is_dropped
    assert warnings == [
        "--to test failed: no 1 with token=***.",
        "--to test gets no more figures: it failed 3 times in a row: no 3 with token=***.",
        "--to test did not take 1 event.",
    ]


def test_a_call_that_hangs_never_holds_the_watcher_and_drops_the_sink(warnings):
    sink = Recording(held=True)
    guard = FailOpen(sink, warnings.append, limit_s=0.02)
    began = time.monotonic()
    guard.show(snapshot(step=1))
    assert sink.entered.wait(20)
    for step in (2, 3, 4):
        time.sleep(0.03)
        guard.show(snapshot(step=step))
    assert guard.is_dropped
    guard.close()
    assert time.monotonic() - began < 10
    assert warnings == [
        "--to test failed: a call takes longer than 0.0200 s.",
        "--to test gets no more figures: it failed 3 times in a row: "
        "a call takes longer than 0.0200 s.",
    ]
    # The thread ends the sink when the call returns after all.
    sink.free.set()
    _wait(lambda: sink.calls == [1, "close"])


@pytest.mark.waits
def test_closing_waits_two_seconds_at_most(warnings):
    sink = Recording(held=True)
    guard = FailOpen(sink, warnings.append, limit_s=60)
    guard.report(event(number=1))
    assert sink.entered.wait(20)
    guard.report(event(number=2))
    began = time.monotonic()
    guard.close()
    assert 1.9 < time.monotonic() - began < 10
    assert warnings == [
        "--to test gets no more figures: it has not ended 2 s after the job.",
        "--to test did not take 1 event.",
    ]
    sink.free.set()


def test_warnings_come_in_the_thread_of_the_watcher():
    threads = []
    sink = Recording(failing=range(100))
    guard = FailOpen(sink, lambda text: threads.append(threading.current_thread()))
    guard.show(snapshot(step=1))
    _wait(lambda: guard.num_failures == 1)
    assert threads == []
    guard.close()
    assert threads == [threading.current_thread()]
