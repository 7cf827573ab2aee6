"""Sessions of an elastic job, on stand-ins for the elastic part of Horovod."""

import json
import time
from types import SimpleNamespace

import pytest

from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.session_recording import ElasticSessions, Worker
from hvdprof.collect.clock.clock_exchange import RankGroup
from hvdprof.collect.session import LineCalls, Session


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818
    """Named as Horovod's."""


class HorovodInternalError(RuntimeError):
    """Named as Horovod's."""


class State:
    """As Horovod's: a commit copies, then asks whether hosts have changed."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.copies = 0

    def commit(self):
        self.copies += 1
        self.check_host_updates()

    def check_host_updates(self):
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer


class TorchState(State):
    pass


def run(func):
    """As Horovod's decorator: after an interrupt shut down, initialise and call again."""

    def wrapper(state):
        while True:
            try:
                return func(state)
            except (HostsUpdatedInterrupt, HorovodInternalError):
                elastic.shutdown()
                elastic.init()

    return wrapper


elastic = SimpleNamespace()


class Recording:
    """What is reported to the recorder, in order."""

    def __init__(self):
        self.reported = []
        self.num_total = self.num_ended = 0

    def begin_session(self, number, num_before):
        self.reported.append(("begin", number, num_before))

    def end_session(self, why):
        self.reported.append(("end", why))


class Job:
    """One process of an elastic job; ``others`` are what other ranks say when a session begins."""

    def __init__(self, monkeypatch, others=()):
        self.now = 0
        self.others = list(others)
        self.recording = Recording()
        for name, value in vars(State).items():
            if name in ("commit", "check_host_updates"):
                monkeypatch.setattr(State, name, value)
        elastic.__dict__.update(
            run=run, init=self._passes(20), shutdown=self._passes(3), TorchState=TorchState
        )
        self.hvd = SimpleNamespace(init=self._passes(7), elastic=elastic)
        self.sessions = ElasticSessions(
            self.hvd, self.recording, lambda: RankGroup(0, 1, self._gather), lambda: self.now
        )
        self.sessions.hook_horovod()
        self.hvd.init()

    def _passes(self, length):
        def call():
            self.now += length

        return call

    def _gather(self, value):
        other = self.others.pop(0) if self.others else None
        if isinstance(other, Exception):
            raise other
        return [json.loads(json.dumps(one)) for one in [value, *(other or [])]]


@pytest.fixture
def marks(monkeypatch):
    seen = []

    class Marking(LineCalls):
        def mark(self, name):
            seen.append(name)

    session = Session()
    session.lines = Marking()
    monkeypatch.setattr(PROCESS, "session", session)
    return seen


def test_a_session_lasts_from_the_call_of_the_function_to_its_end(monkeypatch):
    job = Job(monkeypatch)

    @job.hvd.elastic.run
    def train(state):
        job.recording.reported.append("train")
        return 5

    assert train(State()) == 5
    assert job.recording.reported == [("begin", 1, 0), "train", ("end", "finished")]


def test_a_reset_ends_a_session_and_times_what_lies_between(monkeypatch):
    job = Job(monkeypatch)
    lines = []

    @job.hvd.elastic.run
    def train(state):
        job.now += 100
        lines.append(job.sessions.line())
        state.commit()

    train(State(HostsUpdatedInterrupt()))

    assert job.recording.reported == [
        ("begin", 1, 0),
        ("end", "hosts-updated"),
        ("begin", 2, 0),
        ("end", "finished"),
    ]
    first, second = lines
    assert (first["number"], first["initialised_ns"], first["entered_ns"]) == (1, 7, 7)
    assert (first["left_ns"], first["shut_down_ns"]) == (None, None)
    moments = ("number", "left_ns", "shut_down_ns", "initialised_ns", "entered_ns")
    assert [second[name] for name in moments] == [2, 107, 110, 130, 130]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (HorovodInternalError(), "lost-peer"),
        (ValueError(), "raised"),
        (SystemExit(0), "finished"),
        (SystemExit(3), "raised"),
    ],
)
def test_why_a_session_ends(monkeypatch, error, why):
    job = Job(monkeypatch)
    errors = [error]

    @job.hvd.elastic.run
    def train(state):
        if errors:
            raise errors.pop()

    if why == "lost-peer":
        train(State())
    else:
        with pytest.raises(type(error)):
            train(State())
    assert job.recording.reported[1] == ("end", why)


def test_a_new_rank_takes_number_and_steps_from_the_others(monkeypatch):
    job = Job(monkeypatch, others=[[[4, 120]]])
    job.hvd.elastic.run(lambda state: None)(State())

    assert job.recording.reported[0] == ("begin", 4, 120)


def test_a_session_whose_ranks_do_not_agree_is_not_recorded_and_its_number_not_used_again(
    monkeypatch, capsys
):
    job = Job(monkeypatch, others=[HorovodInternalError("peer gone"), None])
    errors = [HorovodInternalError()]

    @job.hvd.elastic.run
    def train(state):
        if errors:
            raise errors.pop()

    train(State())

    assert job.recording.reported == [("end", "lost-peer"), ("begin", 2, 0), ("end", "finished")]
    assert "session 1 is not recorded: peer gone" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [None, HostsUpdatedInterrupt(), HorovodInternalError()])
def test_a_commit_counts_the_steps_that_it_saves(monkeypatch, marks, answer):
    job = Job(monkeypatch)
    lines = []

    @job.hvd.elastic.run
    def train(state):
        if lines:
            return
        job.recording.num_ended = 12
        lines.append(None)
        state.commit()

    job.recording.end_session = lambda why: lines.append(job.sessions.end_line(why))
    train(State(answer))

    assert marks == ["commit"]
    assert (lines[1]["num_committed"], lines[1]["num_steps"]) == (12, 12)


def test_a_commit_that_fails_is_none(monkeypatch, marks):
    job = Job(monkeypatch)
    with pytest.raises(MemoryError):
        job.hvd.elastic.run(lambda state: state.commit())(State(MemoryError()))

    assert marks == []


def test_the_begin_of_the_process_lies_before_now():
    worker = Worker.from_environment(time.monotonic_ns, {"HOROVOD_RANK": "3"})

    assert worker.started_ns < time.monotonic_ns()
    assert (worker.host, worker.slot, worker.launch_rank) == ("", 0, 3)
