"""A rank that is asked samples itself faster for a while, writes its stacks, and does so once."""

import json
import os
import threading
import time

import pytest

from hvdprof.collect.lines import event_answers
from hvdprof.collect.lines.event_answers import EventAnswers, WorkerAnswers
from hvdprof.collect.standing import Moment
from hvdprof.rundir.layout import request_file
from hvdprof.rundir.rank_requests import Request, write_requests

LENGTH_S = 0.4


class Rank:
    """Rank 1, whose look is due at each call; ``profiled`` and ``problems`` are what it did."""

    def __init__(self, folder):
        self.folder = folder
        self.profiled, self.problems = [], []
        self.moment = Moment("main", 7, "forward", threading.get_ident())
        self.answers = self.begun_again()

    def begun_again(self):
        return EventAnswers(
            *(self.folder, 1, lambda: self.moment),
            lambda path, step: self.profiled.append((path.name, step)),
            self.problems.append,
            time.monotonic_ns,
        )

    def ask(self, *requests):
        write_requests(request_file(self.folder, 1), requests)

    def look(self):
        self.answers._next_look_ns = 0
        self.answers.look()

    def wait(self):
        end_s = time.monotonic() + 20
        while self.answers._sampler.is_running:
            assert time.monotonic() < end_s
            time.sleep(0.01)

    def names(self):
        return sorted(path.name for path in self.folder.glob("event-*"))


@pytest.fixture
def rank(tmp_path, monkeypatch):
    monkeypatch.setattr(event_answers, "LENGTH_S", LENGTH_S)
    made = Rank(tmp_path)
    yield made
    made.answers.close()


def _lines(rank, event):
    path = rank.folder / f"event-{event}-rank-1.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_samples_and_two_sets_of_stacks_are_written(rank):
    rank.look()
    assert rank.names() == []
    rank.ask(Request(3, samples=True))
    rank.look()
    rank.wait()
    sampling, lines = _lines(rank, 3)
    assert (sampling["kind"], sampling["rank"], sampling["hz"]) == ("sampling", 1, 100.0)
    ((phase, number, *_),) = lines["phases"]
    assert phase == "forward"
    assert 5 <= number <= 4 * LENGTH_S * 100
    assert 0.9 * LENGTH_S < (lines["end_ns"] - lines["start_ns"]) / 1e9 < 10
    assert any(place[1].endswith("test_event_answers.py") for place in lines["places"])
    stacks = (rank.folder / "event-3-rank-1.stack").read_text()
    assert stacks.count("Stacks at ") == 2
    assert "test_event_answers.py" in stacks
    assert rank.problems == []


def test_an_event_is_answered_once_also_by_a_process_that_is_begun_again(rank):
    rank.ask(Request(0, samples=True))
    rank.look()
    rank.wait()
    before = _lines(rank, 0)
    rank.ask(Request(0, samples=True), Request(0, samples=True))
    rank.look()
    rank.answers = rank.begun_again()
    rank.look()
    assert _lines(rank, 0) == before
    assert rank.names() == ["event-0-rank-1.jsonl", "event-0-rank-1.stack"]
    assert [text.partition(":")[0] for text in rank.problems] == ["no samples for event 0"]


def test_a_second_event_waits_for_the_first(rank):
    rank.ask(Request(0, samples=True), Request(1, samples=True))
    rank.look()
    rank.look()
    assert "event-1-rank-1.jsonl" not in rank.names()
    rank.wait()
    rank.look()
    rank.wait()
    assert _lines(rank, 1)[-1]["kind"] == "lines"


def test_of_two_watchers_one_alone_may_want_profiled_steps(rank):
    rank.ask(Request(0, samples=True))
    rank.look()
    rank.wait()
    rank.ask(Request(0, samples=True), Request(0, samples=True, first_step=50))
    rank.look()
    rank.look()
    assert rank.profiled == [("event-0-rank-1.pt.trace.json.gz", 50)]
    assert rank.problems == []


def test_a_rank_that_is_not_late_profiles_alone(rank):
    rank.ask(Request(5, samples=False, first_step=120))
    rank.look()
    assert rank.profiled == [("event-5-rank-1.pt.trace.json.gz", 120)]
    assert rank.names() == []


@pytest.mark.parametrize("text", ["{torn", '{"requests": [{"event": -3, "samples": true}]}'])
def test_a_damaged_request_is_none(rank, text):
    request_file(rank.folder, 1).write_text(text)
    rank.look()
    assert (rank.names(), rank.problems) == ([], [])


def test_the_answers_of_a_rank_are_bounded(rank):
    for event in range(event_answers.MOST_ANSWERS + 5):
        rank.ask(Request(event, samples=False, first_step=0))
        rank.look()
    assert len(rank.profiled) == event_answers.MOST_ANSWERS


def test_stacks_are_bounded(rank, monkeypatch):
    monkeypatch.setattr(event_answers, "MOST_STACK_BYTES", 100)
    rank.ask(Request(0, samples=True))
    rank.look()
    rank.wait()
    assert (rank.folder / "event-0-rank-1.stack").stat().st_size < 2 * 200


def test_a_worker_answers_with_samples_and_stacks_of_its_own_and_profiles_nothing(
    rank, monkeypatch
):
    monkeypatch.setattr(event_answers, "print_problem", rank.problems.append)
    rank.answers = WorkerAnswers(rank.folder, 1, 2)
    rank.ask(Request(4, samples=True, first_step=9))
    rank.look()
    rank.wait()
    names = ["event-4-rank-1-worker-2.jsonl", "event-4-rank-1-worker-2.stack"]
    assert rank.names() == names
    sampling, lines = map(json.loads, (rank.folder / names[0]).read_text().splitlines())
    assert (sampling["process"], sampling["hz"], lines["kind"]) == ("worker", 100.0, "lines")
    # The next worker of that number has nothing to add, and one that comes late was not asked.
    rank.answers = WorkerAnswers(rank.folder, 1, 2)
    rank.look()
    old = time.time() - 60
    os.utime(request_file(rank.folder, 1), (old, old))
    rank.answers = WorkerAnswers(rank.folder, 1, 3)
    rank.look()
    assert (rank.names(), rank.profiled, rank.problems) == (names, [], [])


def test_the_end_of_the_recording_ends_an_answer_with_what_there_is(rank, monkeypatch):
    monkeypatch.setattr(event_answers, "LENGTH_S", 60.0)
    rank.ask(Request(0, samples=True))
    rank.look()
    time.sleep(0.2)
    rank.answers.close()
    assert [line["kind"] for line in _lines(rank, 0)] == ["sampling", "lines"]
