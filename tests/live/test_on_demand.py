"""A named rank is asked once, and its answers follow the event."""

import json

import pytest

from hvdprof.live.watcher import Watcher
from hvdprof.rundir.layout import SAMPLES, STACKS, TRACE, answer_file, request_file
from hvdprof.rundir.rank_requests import Request, read_requests
from hvdprof.rundir.recording.stall_format import EventState
from tests.builders.live_job import WALL_NS, LiveJob

S = 1_000_000_000
SLOW, OTHER = ("/job/crop.py", 41, "crop"), ("/job/train.py", 9, "main")


class Watch:
    """A job of three ranks of which rank 1 is slow from window 20 on, and who watches it."""

    def __init__(self, folder, *, profiles=False, until=300):
        self.now_s, self.profiles, self.events = 0.0, profiles, []
        slow = lambda rank, at: 0.2 if rank == 1 and 20 <= at < until else 0.0  # noqa: E731
        self.job = LiveJob(folder, 3, slow)
        self.folder = folder
        self.watcher = self.another()

    def another(self):
        wall = lambda: WALL_NS / 1e9 + self.now_s  # noqa: E731
        return Watcher(self.folder, lambda: self.now_s, wall, profiles=self.profiles)

    def see(self, number):
        found = []
        for _ in range(number):
            self.job.record(1)
            self.now_s += 1
            found += self.watcher.look().events
        self.events += found
        return found

    def asked(self, rank):
        path = request_file(self.folder, rank)
        return read_requests(path) if path.exists() else []

    def answer(self, event=0, rank=1, phase="data", counts=((SLOW, 60), (OTHER, 40)), worker=None):
        head = {"kind": "sampling", "rank": rank, "process": "main", "pid": 1, "hz": 100.0}
        number = sum(count for _, count in counts)
        line = {
            "kind": "lines",
            "start_ns": 0,
            "end_ns": 10 * S,
            "phases": [[phase, number, 0, 0, 0], ["blocked", 500, 0, 0, 0]][
                : 2 - (worker is not None)
            ],
            "places": [[at + 1, *place, ""] for at, (place, _) in enumerate(counts)],
            "counts": [[0, at + 1, count] for at, (_, count) in enumerate(counts)],
        }
        path = answer_file(self.folder, event, rank, SAMPLES, worker=worker)
        path.write_text("".join(json.dumps(one) + "\n" for one in (head, line)))
        path.with_suffix(STACKS).write_text("Stacks at ...\n")


def _states(events):
    return [event.state for event in events]


def test_a_named_rank_is_asked_and_its_answer_follows_the_event(tmp_path):
    watch = Watch(tmp_path)
    (named,) = watch.see(60)
    assert watch.asked(1) == [Request(0, samples=True, first_step=-1)]
    assert [watch.asked(rank) for rank in (0, 2)] == [[], []]
    answer_file(tmp_path, 0, 1, SAMPLES).write_text('{"kind": "sampling"}\n')
    assert watch.see(2) == []
    watch.answer()
    (sampled,) = watch.see(3)
    assert (sampled.state, sampled.number, sampled.ranks) == (EventState.SAMPLED, 0, named.ranks)
    assert (sampled.place, sampled.share) == ("crop.py:41 (crop)", 0.6)
    assert sampled.files == ("event-0-rank-1.jsonl", "event-0-rank-1.stack")
    assert sampled.text == (
        "Of 100 samples of rank 1 in data, in 10 s, crop.py:41 (crop) has 60 %. "
        "Files: event-0-rank-1.jsonl, event-0-rank-1.stack."
    )
    snapshot = watch.watcher.look().snapshot
    assert (len(snapshot.running), sum(snapshot.events_total.values())) == (1, 1)


def test_a_watcher_that_restarts_asks_nothing_again_and_still_finds_the_answer(tmp_path):
    watch = Watch(tmp_path)
    watch.see(60)
    before = request_file(tmp_path, 1).stat().st_mtime_ns
    watch.watcher = watch.another()
    watch.see(2)
    watch.answer()
    assert _states(watch.see(2)) == [EventState.SAMPLED]
    watch.watcher = watch.another()
    assert watch.see(3) == []
    assert request_file(tmp_path, 1).stat().st_mtime_ns == before
    lines = [json.loads(text) for text in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["state"] for line in lines] == ["begun", "sampled"]


def test_what_is_over_for_long_is_asked_of_no_one(tmp_path):
    watch = Watch(tmp_path, until=60)
    watch.job.record(400)
    watch.now_s = 400
    events = watch.watcher.look().events
    assert _states(events) == [EventState.BEGUN, EventState.OVER]
    assert watch.asked(1) == []


def test_a_job_that_is_over_is_asked_nothing(tmp_path):
    watch = Watch(tmp_path)
    watch.job.record(60)
    watch.job.end()
    assert _states(watch.watcher.look().events) == [EventState.BEGUN]
    assert watch.asked(1) == []


@pytest.mark.parametrize(
    ("phase", "counts", "said"),
    [
        ("data", [(SLOW, 3)], "Of 3 samples of rank 1 in all phases"),
        ("data", [], "Of 0 samples of rank 1 in all phases"),
        ("data", [(("", 0, ""), 90)], "no line of the script stands out"),
        ("forward", [(SLOW, 50)], "Of 50 samples of rank 1 in all phases"),
    ],
)
def test_what_the_samples_do_not_show_is_not_said(tmp_path, phase, counts, said):
    watch = Watch(tmp_path)
    watch.see(60)
    watch.answer(phase=phase, counts=counts)
    path = answer_file(tmp_path, 0, 1, SAMPLES)
    path.write_text(
        path.read_text().replace('["blocked", 500, 0, 0, 0]', '["blocked", 0, 0, 0, 0]')
    )
    (sampled,) = watch.see(2)
    assert said in sampled.text


def test_in_data_the_line_is_that_of_the_workers_once_all_have_answered(tmp_path):
    watch = Watch(tmp_path)
    watch.see(60)
    watch.answer(counts=((OTHER, 90), (SLOW, 10)))
    answer_file(tmp_path, 0, 1, SAMPLES, worker=1).write_text('{"kind": "sampling"}\n')
    assert watch.see(2) == []
    for worker in (0, 1):
        watch.answer(phase="outside", counts=((SLOW, 300), (OTHER, 100)), worker=worker)
    (sampled,) = watch.see(2)
    assert sampled.text.startswith(
        "Of 800 samples of 2 workers of rank 1, in 10 s, crop.py:41 (crop) has 75 %. Files: "
        "event-0-rank-1.jsonl, event-0-rank-1.stack, event-0-rank-1-worker-0.jsonl, "
    )
    assert (sampled.place, len(sampled.files)) == ("crop.py:41 (crop)", 6)


def test_a_worker_that_is_gone_is_not_waited_for_for_ever(tmp_path):
    watch = Watch(tmp_path)
    watch.see(60)
    watch.answer()
    answer_file(tmp_path, 0, 1, SAMPLES, worker=0).write_text('{"kind": "sampling"}\n')
    assert watch.see(60) == []
    (sampled,) = watch.see(80)
    assert sampled.text.startswith("Of 100 samples of rank 1 in data, ")


def test_profiles_are_asked_of_the_named_rank_and_one_that_is_not_late(tmp_path):
    watch = Watch(tmp_path, profiles=True)
    watch.see(60)
    ((own,), (other,)) = watch.asked(1), watch.asked(0)
    assert (own.event, own.samples, other.samples) == (0, True, False)
    assert own.first_step == other.first_step > 20 * 32
    watch.answer()
    watch.see(2)
    for rank in (0, 1):
        answer_file(tmp_path, 0, rank, TRACE).write_bytes(b"")
    (profiled,) = watch.see(3)
    assert profiled.state == EventState.PROFILED
    assert profiled.files == tuple(f"event-0-rank-{rank}.pt.trace.json.gz" for rank in (0, 1))


def test_one_trace_is_reported_where_no_other_comes(tmp_path):
    watch = Watch(tmp_path, profiles=True)
    watch.see(60)
    answer_file(tmp_path, 0, 1, TRACE).write_bytes(b"")
    assert watch.see(60) == []
    (profiled,) = watch.see(80)
    assert profiled.files == ("event-0-rank-1.pt.trace.json.gz",)


def test_three_events_of_a_run_are_profiled_at_most_by_whichever_watcher(tmp_path):
    watch = Watch(tmp_path, profiles=True)
    for event in (7, 8):
        answer_file(tmp_path, event, 2, TRACE).write_bytes(b"")
    watch.see(60)
    assert watch.asked(1)[0].first_step >= 0
    watch.job.extra = lambda rank, _: 0.4 if rank == 2 else 0.0
    watch.watcher = watch.another()
    watch.see(80)
    assert [one.first_step for one in watch.asked(2)] == [-1]
