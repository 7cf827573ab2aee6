"""A watcher over recordings that grow: named and cleared, restarted, launches, ends, bad places."""

import json
import subprocess
import tracemalloc
from collections import Counter

import pytest

from hvdprof.live.watcher import Watcher
from hvdprof.rundir.layout import watched_mark
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from hvdprof.rundir.regular_file import open_regular
from tests.builders.live_job import WALL_NS, LiveJob, window
from tests.builders.small_disk import small_disk

BEGUN, OVER = EventState.BEGUN, EventState.OVER


class Clock:
    """Seconds that move by hand."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def _watcher(job, clock):
    return Watcher(job.folder, clock, lambda: WALL_NS / 1e9 + clock.now_s)


def _watch(job, watcher, clock, number):
    events = []
    for _ in range(number):
        job.record(1)
        clock.now_s += 1
        events += watcher.look().events
    return events


def _slow(begin, end, rank=1, extra=0.2):
    return lambda one, at: extra if one == rank and begin <= at < end else 0.0


def _lines(job):
    path = job.folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_slow_rank_is_named_and_cleared_with_step_phase_and_cost(tmp_path, clock):
    job = LiveJob(tmp_path, 4, _slow(60, 140))
    watcher = _watcher(job, clock)
    named, over = _watch(job, watcher, clock, 230)
    assert (named.kind, named.state, named.ranks) == (EventKind.STRAGGLER, BEGUN, (1,))
    assert (named.phase, named.host) == ("data", "node0")
    assert named.step == pytest.approx(60 * 32, abs=64)
    assert named.cost_s == pytest.approx(0.2 * 0.030, rel=0.15)
    assert named.cost_s / named.step_s == pytest.approx(0.2 / 1.3, rel=0.15)
    assert (over.state, over.number) == (OVER, named.number)
    assert over.step == pytest.approx(140 * 32 - 1, abs=64)
    assert [line["state"] for line in _lines(job)] == ["begun", "over"]
    job.end()
    snapshot = watcher.look().snapshot
    assert (snapshot.is_over, list(snapshot.running)) == (True, [])


def test_two_slow_ranks_of_many_are_both_named(tmp_path, clock):
    job = LiveJob(tmp_path, 8, lambda rank, _: 0.3 if rank in (2, 5) else 0.0)
    events = _watch(job, _watcher(job, clock), clock, 60)
    assert sorted((event.kind, event.ranks) for event in events) == [
        (EventKind.STRAGGLER, (2,)),
        (EventKind.STRAGGLER, (5,)),
    ]


def test_a_slowdown_of_all_is_no_straggler_and_a_straggler_no_slowdown(tmp_path, clock):
    job = LiveJob(tmp_path / "all", 2)
    watcher = _watcher(job, clock)
    assert _watch(job, watcher, clock, 30) == []
    job.factor = 1.5
    (slower,) = _watch(job, watcher, clock, 60)
    assert (slower.kind, slower.ranks) == (EventKind.SLOWDOWN, ())
    one = LiveJob(tmp_path / "one", 2, _slow(30, 300, extra=0.5))
    assert [event.kind for event in _watch(one, _watcher(one, clock), clock, 100)] == [
        EventKind.STRAGGLER
    ]


def test_another_segment_is_no_slowdown(tmp_path, clock):
    job = LiveJob(tmp_path, 2)
    watcher = _watcher(job, clock)
    _watch(job, watcher, clock, 40)
    job.segment, job.factor = "larger", 2.0
    assert _watch(job, watcher, clock, 60) == []


def test_input_is_named_only_where_waits_are_seen(tmp_path, clock):
    job = LiveJob(tmp_path / "seen", 2, lambda *_: 0.4)
    assert [event.kind for event in _watch(job, _watcher(job, clock), clock, 50)] == [
        EventKind.INPUT_BOUND
    ]
    unseen = LiveJob(tmp_path / "unseen", 2)
    for rank in range(2):
        for at in range(40):
            unseen.append(rank, window(at, at, own=5, length=1_000_000_000, waits=None))
    look = _watcher(unseen, clock).look()
    assert (list(look.events), list(look.snapshot.costs_s)) == ([], [])
    assert any("cannot" in text or "no rank can" in text for text in look.problems)


def test_a_watcher_that_restarts_reports_nothing_twice(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(20, 100))
    first = _watch(job, _watcher(job, clock), clock, 60)
    again = _watcher(job, clock)
    assert list(again.look().events) == []
    second = _watch(job, again, clock, 90)
    assert [(event.number, event.state) for event in (*first, *second)] == [(0, BEGUN), (0, OVER)]
    assert len(_lines(job)) == 2


def test_two_watchers_report_the_same_and_write_it_once(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(20, 100))
    one, other = _watcher(job, clock), _watcher(job, clock)
    found = []
    for _ in range(160):
        job.record(1)
        clock.now_s += 1
        looks = one.look(), other.look()
        found.append([[(e.number, e.state, e.ranks) for e in look.events] for look in looks])
    assert all(left == right for left, right in found)
    assert sum(len(left) for left, _ in found) == 2 == len(_lines(job))


def test_a_job_that_is_over_gets_no_events_as_if_watched(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(20, 300))
    job.record(80)
    job.end()
    look = _watcher(job, clock).look()
    assert [event.kind for event in look.events] == [EventKind.STRAGGLER]
    assert look.snapshot.is_over
    assert _lines(job) == []
    assert not watched_mark(job.folder).exists()


def test_the_mark_is_there_while_watched(tmp_path, clock):
    job = LiveJob(tmp_path, 2)
    watcher = _watcher(job, clock)
    watcher.look()
    assert watched_mark(tmp_path).exists()
    watcher.close()
    assert not watched_mark(tmp_path).exists()


def test_a_full_disk_is_a_problem_and_the_event_is_reported(tmp_path, clock, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    job = LiveJob(tmp_path, 2, _slow(0, 300))
    job.record(60)
    monkeypatch.setattr("hvdprof.live.watched_job.open_run_file", full)
    monkeypatch.setattr("hvdprof.live.on_demand.open_run_file", full)
    watcher = _watcher(job, clock)
    look = watcher.look()
    assert len(look.events) == 1
    problems = [*look.problems, *watcher.look().problems]
    assert sum("No space left" in text for text in problems) == 2


def test_a_line_cut_by_a_full_disk_does_not_spoil_the_next(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(0, 300))
    (tmp_path / "events.jsonl").write_text('{"kind": "eve')
    job.record(60)
    _watcher(job, clock).look()
    torn, line = (tmp_path / "events.jsonl").read_text().splitlines()
    assert torn == '{"kind": "eve'
    assert json.loads(line)["ranks"] == [1]


def test_the_others_continue_without_a_rank_that_has_ended(tmp_path, clock):
    job = LiveJob(tmp_path, 3)
    watcher = _watcher(job, clock)
    _watch(job, watcher, clock, 20)
    job.append(2, {"kind": "end"})
    job.ranks = (0, 1)
    assert _watch(job, watcher, clock, 60) == []
    assert watcher.look().snapshot.step == 80 * 32 - 1


def test_a_hang_is_over_also_where_stalls_were_written_down_meanwhile(tmp_path, clock):
    job = LiveJob(tmp_path, 2)
    watcher = _watcher(job, clock)
    _watch(job, watcher, clock, 10)
    clock.now_s += 40
    (hang,) = watcher.look().events
    (tmp_path / "stalls.jsonl").touch()
    (over,) = _watch(job, watcher, clock, 1)
    assert (hang.kind, hang.state, over.kind, over.state) == (
        *(EventKind.NO_PROGRESS, BEGUN),
        *(EventKind.NO_PROGRESS, OVER),
    )


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_a_wall_clock_that_jumps_changes_no_length_of_an_event(tmp_path, clock, off_s):
    job = LiveJob(tmp_path, 2, _slow(20, 100))
    watcher = _watcher(job, clock)
    events = _watch(job, watcher, clock, 60)
    job.wall_off_ns = round(off_s * 1e9)
    events += _watch(job, watcher, clock, 80)
    assert [event.state for event in events] == [BEGUN, OVER]
    begun, over = events
    assert 80 < over.since_s - begun.since_s < 120
    assert "after 1 min" in over.text


def test_a_folder_that_cannot_be_written_is_a_problem_and_ranks_are_named(tmp_path, clock):
    with small_disk(tmp_path / "rec", "8m") as folder:
        job = LiveJob(folder, 2, _slow(0, 300))
        job.record(60)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        look = _watcher(job, clock).look()
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    assert [event.ranks for event in look.events] == [(1,)]
    assert [text for text in look.problems if "Read-only file system" in text] == [
        f"{folder}/watched cannot be written (Read-only file system): the windows of a light "
        "recording stay up to 10 s long, and events are seen later",
        "events.jsonl takes no more events: Read-only file system",
    ]


def test_the_work_of_512_ranks_is_a_line_parsed_once_and_a_file_opened_once_a_look(
    tmp_path, clock, monkeypatch
):
    parsed, opened = Counter(), Counter()

    def parse(text):
        parsed["lines"] += 1
        return from_bytes(text)

    def opening(path):
        opened[path.name] += 1
        return open_regular(path)

    monkeypatch.setattr("hvdprof.live.rank_feed.from_bytes", parse)
    monkeypatch.setattr("hvdprof.live.rank_feed.open_regular", opening)
    job = LiveJob(tmp_path, 512)
    watcher = _watcher(job, clock)
    looks = 6
    _watch(job, watcher, clock, looks)
    assert parsed["lines"] == 512 * (1 + looks)
    # Once for what is there, and once more where something was.
    assert max(opened[f"rank-{rank}.jsonl"] for rank in range(512)) == 2 * looks
    before = opened.copy()
    watcher.look()
    assert max((opened - before).values()) == 1
    assert watcher.look().snapshot.num_ranks == 512


@pytest.mark.slow
def test_a_job_of_10_000_windows_is_followed_in_bounded_memory(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(9_000, 9_200))
    watcher, events, held = _watcher(job, clock), [], {}
    tracemalloc.start()
    for at in range(50, 10_001, 50):
        job.record(50)
        clock.now_s += 50
        events += watcher.look().events
        # Before the event, with which modules are imported.
        if at in (2_000, 8_900):
            held[at], _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    named, over = events
    assert (named.kind, named.state, named.ranks, over.state) == (
        *(EventKind.STRAGGLER, BEGUN, (1,)),
        OVER,
    )
    assert named.step == pytest.approx(9_000 * 32, abs=64)
    # The dictionary of interned strings may double; 13,800 windows as they are read are 20 MB.
    assert held[8_900] - held[2_000] < 3_000_000
    again = _watcher(job, clock).look()
    assert (list(again.events), again.snapshot.num_ranks) == ([], 2)
    assert len(_lines(job)) == 2


def test_a_recording_that_is_fetched_whole_in_place_of_its_copy_is_read_on(tmp_path, clock):
    job = LiveJob(tmp_path, 2, _slow(20, 300))
    watcher = _watcher(job, clock)
    events = _watch(job, watcher, clock, 60)
    for path in tmp_path.glob("rank-1.jsonl"):
        (tmp_path / "fetched").write_bytes(path.read_bytes())
        (tmp_path / "fetched").replace(path)
    events += _watch(job, watcher, clock, 60)
    assert [event.ranks for event in events] == [(1,)]
    assert watcher.look().snapshot.step == 120 * 32 - 1


def test_the_launch_before_is_read_to_its_end_and_loses_its_mark(tmp_path, clock):
    first = LiveJob(tmp_path / "passes/a/recorder", 2, _slow(0, 300))
    watcher = Watcher(tmp_path, clock, lambda: WALL_NS / 1e9 + clock.now_s)
    watcher._job.is_run, watcher._job.is_over = True, lambda: False
    watcher.look()
    first.record(60)
    LiveJob(tmp_path / "passes/b/recorder", 2)
    look = watcher.look()
    assert [event.ranks for event in look.events] == [(1,)]
    assert look.snapshot.job.endswith("/b")
    assert not watched_mark(tmp_path / "passes/a/recorder").exists()
    assert watched_mark(tmp_path / "passes/b/recorder").exists()


def test_ranks_that_are_not_seen_from_here_are_said(tmp_path, clock):
    job = LiveJob(tmp_path, 4)
    for rank in (2, 3):
        (tmp_path / f"rank-{rank}.jsonl").unlink()
    job.ranks = (0, 1)
    watcher = _watcher(job, clock)
    problems = []
    for _ in range(70):
        job.record(1)
        clock.now_s += 1
        problems += watcher.look().problems
    assert problems == [
        "this host sees the recordings of 2 of 4 ranks: the figures are of those alone"
    ]
