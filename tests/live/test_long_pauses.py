"""Evaluations and checkpoints that are long against those of the same job before."""

import json

import pytest

from hvdprof.live.long_pauses import UsualLength
from hvdprof.live.watcher import Watcher
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from tests.builders.live_job import PER, STEP_NS, WALL_NS, LiveJob, header, step, window

S = 1_000_000_000


@pytest.mark.parametrize(
    ("before", "length", "usual"),
    [
        ([], 900, 0),
        ([10, 10], 900, 0),
        ([10, 12, 11], 16, 0),
        ([10, 12, 11], 20, 11),
        ([0.1, 0.1, 0.1], 0.9, 0),
        ([10, 10, 40, 10, 10, 40, 10], 41, 0),
        ([10] * 20, 16, 10),
    ],
)
def test_only_what_is_longer_than_usual_and_than_long_ones_is_long(before, length, usual):
    usual_length = UsualLength()
    for one in before:
        usual_length.exceeded(one * S)
    assert usual_length.exceeded(length * S) == usual * S


class Evaluating(LiveJob):
    """A job of two ranks that evaluates, in a window of one step on its own."""

    def __init__(self, folder):
        super().__init__(folder, 2)
        self.first = 0

    def windows_with_evaluation(self, seconds):
        for kind in ("plain", "evaluation"):
            number = PER if kind == "plain" else 1
            length = number * STEP_NS + (seconds * S if kind == "evaluation" else 0)
            self.now_ns += length
            for rank in (0, 1):
                line = window(self.first, self.first + number - 1, own=length, length=length)
                line["end_ns"] = self.now_ns
                if kind == "evaluation":
                    line["evaluation_ns"] = seconds * S
                self.append(rank, line)
            self.first += number


def _watcher(folder):
    return Watcher(folder, lambda: 0.0, lambda: WALL_NS / 1e9 + 1e6)


def test_a_long_evaluation_is_an_event_with_begin_end_and_cost(tmp_path):
    job, found = Evaluating(tmp_path), []
    watcher = _watcher(tmp_path)
    for seconds in (20, 21, 20, 19, 48, 20):
        job.windows_with_evaluation(seconds)
        found.append(list(watcher.look().events))
    assert [len(events) for events in found] == [0, 0, 0, 0, 1, 0]
    ((event,),) = (events for events in found if events)
    assert (event.kind, event.state, event.ranks) == (EventKind.EVALUATION, EventState.ONCE, ())
    assert event.cost_s == pytest.approx(28)
    assert event.time_s - event.since_s == pytest.approx(48, abs=0.01)
    assert event.step == 5 * (PER + 1) - 1
    assert event.text == (
        "An evaluation took 48 s, 28 s longer than usual (20 s, the median of those before)."
    )
    assert list(_watcher(tmp_path).look().events) == []
    snapshot = watcher.look().snapshot
    assert (list(snapshot.running), snapshot.events_total) == ([], {EventKind.EVALUATION: 1})


def test_evaluations_of_a_full_recording_are_seen_too(tmp_path):
    (tmp_path / "rank-0.jsonl").touch()
    lines, start = [header(0, 1)], 0
    for number, seconds in enumerate((10, 10, 10, 30)):
        length = seconds * S + STEP_NS
        line = step(number, own=length, length=length, start=start, evaluation=True)
        line["phases"] = [["evaluation", 0, seconds * S], ["forward", seconds * S, STEP_NS]]
        lines.append(line)
        start += length
    (tmp_path / "rank-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (event,) = _watcher(tmp_path).look().events
    assert (event.kind, event.step, event.cost_s) == (EventKind.EVALUATION, 3, 20.0)


def _call(start_s, length_s, step, **changes):
    line = {"kind": "call", "name": "torch.save", "segment": "main", "step": step}
    times = {"start_ns": int(start_s * S), "dur_ns": int(length_s * S)}
    return {**line, **times, "file": "train.py", "line": 3, "detail": "c.pt", **changes}


def _looks(tmp_path, *lines, now=(0.0, 30.0)):
    LiveJob(tmp_path, 1)
    path = tmp_path / "lines-0.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    clock = iter(now)
    watcher = Watcher(tmp_path, lambda: next(clock), lambda: WALL_NS / 1e9 + 1e6)
    return [event for _ in now for event in watcher.look().events]


@pytest.mark.parametrize("name", ["torch.save", "torch.distributed.checkpoint.async_save"])
def test_a_long_checkpoint_is_an_event_of_its_rank_all_its_calls_together(tmp_path, name):
    saved = [
        _call(100 * number + part, length / 2, 50 * number, name=name)
        for number, length in enumerate((4, 4, 4, 16))
        for part in (0, 20)
    ]
    (event,) = _looks(tmp_path, *saved)
    assert (event.kind, event.state, event.ranks) == (
        *(EventKind.CHECKPOINT, EventState.ONCE),
        (0,),
    )
    assert (event.cost_s, event.step, event.host) == (12.0, 150, "node0")
    assert event.since_s == WALL_NS / 1e9 + 300
    assert event.text == (
        "A checkpoint of rank 0 took 16 s, 12 s longer than usual (4 s, the median of those "
        "before)."
    )


def test_the_last_checkpoint_waits_until_it_is_whole(tmp_path):
    saved = [_call(100 * number, length, number) for number, length in enumerate((4, 4, 4, 16))]
    assert _looks(tmp_path / "short", *saved, now=(0.0, 6.0)) == []
    assert len(_looks(tmp_path / "long", *saved, now=(0.0, 16.0))) == 1


def test_what_is_written_just_before_the_end_of_the_job_is_an_event(tmp_path):
    job = LiveJob(tmp_path, 1)
    path, clock = tmp_path / "lines-0.jsonl", iter((0.0, 1.0, 2.0))
    watcher = Watcher(tmp_path, lambda: next(clock), lambda: WALL_NS / 1e9 + 1e6)
    assert watcher.look().events == []
    saved = [_call(100 * number, length, number) for number, length in enumerate((4, 4, 4, 16))]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in saved))
    # Looks are seconds apart, and the last checkpoint may not be whole.
    assert watcher.look().events == []
    job.end()
    assert [event.kind for event in watcher.look().events] == [EventKind.CHECKPOINT]


def test_a_usual_checkpoint_below_a_second_has_its_milliseconds(tmp_path):
    saved = [
        _call(100 * number, length, number) for number, length in enumerate((0.09,) * 3 + (2, 1))
    ]
    (event,) = _looks(tmp_path, *saved)
    assert event.text == (
        "A checkpoint of rank 0 took 2 s, 2 s longer than usual (90 ms, the median of those "
        "before)."
    )


def test_other_calls_and_damaged_lines_are_none(tmp_path):
    saved = [_call(100 * number, 4, number) for number in range(4)]
    others = [
        _call(400, 60, 5, name="garbage collection"),
        _call(500, 60, 6, name=["torch.save"]),
        _call(600, 60, "x"),
        _call(700, 60, 7, dur_ns=1 << 70),
        _call(800, 60, 8, start_ns=None),
        {"kind": "call"},
    ]
    assert _looks(tmp_path, *saved, *others) == []
