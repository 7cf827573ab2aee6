"""The screen of a watcher on a pipe, as JSON, and on a terminal."""

import io
import json
import math

import pytest

from hvdprof.api.live import Look
from hvdprof.cli.progress.watch_screen import screen_of
from hvdprof.rundir.recording.stall_format import EventState
from tests.builders.watched_job import event, snapshot


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def _shown(*looks, out=None, as_json=False, waiting=""):
    out, problems = out or io.StringIO(), io.StringIO()
    with screen_of(out, problems, as_json=as_json, waiting=waiting) as screen:
        for look in looks:
            screen.show(look)
    return out.getvalue(), problems.getvalue()


def test_a_pipe_gets_a_line_per_event_and_the_end():
    looks = Look(snapshot(), [event()], ["the disk is full"]), Look(snapshot(is_over=True), [], [])
    out, problems = _shown(*looks)
    line, end = out.splitlines()
    assert " straggler begun (since " in line
    assert line.endswith(": straggler: rank 3 on node1, data phase, 20.0 ms per step")
    assert end == "The job has ended: 1 event; to the end: straggler (rank 3)."
    assert problems == "hvdprof: the disk is full.\n"


def test_a_job_of_which_no_rank_has_recorded_is_waited_for_and_that_is_said_once(monkeypatch):
    nothing = Look(snapshot(num_ranks=0, step_s=math.nan), [], [])
    assert _shown(nothing, nothing, waiting="Waiting for it.") == ("", "hvdprof: Waiting for it.\n")
    begun = Look(snapshot(), [], [])
    both = (
        "hvdprof: Waiting for it.\nhvdprof: Ranks are recording; a line follows for each event.\n"
    )
    assert _shown(nothing, begun, begun, waiting="Waiting for it.")[1] == both
    assert _shown(begun)[1] == ""
    over = Look(snapshot(num_ranks=0, is_over=True), [], [])
    assert _shown(over, waiting="Waiting for it.")[1] == ""
    monkeypatch.setenv("TERM", "xterm")
    assert "Waiting for it." in _shown(nothing, out=Terminal(), waiting="Waiting for it.")[0]


def test_json_is_an_object_per_event():
    over = event(state=EventState.OVER)
    out, _ = _shown(Look(snapshot(is_over=True), [event(), over], []), as_json=True)
    first, last = map(json.loads, out.splitlines())
    assert (first["kind"], first["state"], first["ranks"]) == ("straggler", "begun", [3])
    assert last["state"] == "over"


@pytest.mark.parametrize("state", EventState)
def test_events_of_every_state_are_shown(monkeypatch, state):
    monkeypatch.setenv("TERM", "xterm")
    look = Look(snapshot(), [event(state=state, text="It was so.", files=("a.jsonl",))], [])
    assert f"straggler {state}" in _shown(look, out=Terminal())[0]
    assert json.loads(_shown(look, as_json=True)[0])["files"] == ["a.jsonl"]


def test_a_terminal_shows_rates_costs_ranks_and_events(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    out, _ = _shown(Look(snapshot(), [event()], ["the disk is full."]), out=Terminal())
    for text in (
        *("resnet: 4 ranks, step 120", "(-20 % against the begin)", "waiting for the slowest"),
        *("data (least of all ranks)", "node1", "named", "Events", "Note: the disk is full."),
    ):
        assert text in out
