"""The page of a running job: figures, ranks that differ, events; what stands there afterwards."""

import math
import time

import pytest

from hvdprof.api.live import Event, Snapshot
from hvdprof.dashboards.live_watches import LiveRun, LiveWatches
from hvdprof.dashboards.pages import live
from hvdprof.dashboards.run_store import RunStore
from hvdprof.errors import HvdprofError
from hvdprof.live.snapshot import RankView
from hvdprof.rundir.layout import watched_mark
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from hvdprof.rundir.run_lock import exclusive_run
from tests.builders.browser import show, wait_until, watched_page
from tests.builders.live_job import LiveJob
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.served_dashboard import measured_run, page_text, served, shown_text

pytestmark = pytest.mark.slow

NAN = math.nan


def snapshot(**changes):
    values = {"job": "run/01", "time_s": 1.0, "num_ranks": 2, "step": 640, "step_s": 0.04}
    rates = {"samples_per_s": 400.0, "first_samples_per_s": 500.0, "input_wait_s": 0.004}
    shares = {"lateness_cost_ratio": 0.25, "exposed_communication_ratio": 0.1}
    return Snapshot(**(values | rates | shares | changes))


def event(text="Rank 1 is slow.", state=EventState.BEGUN):
    times = {"time_s": 1.0, "since_s": 0.0, "cost_s": 0.01, "step_s": 0.04}
    place = {"segment": "main", "step": 3, "ranks": (1,), "host": "", "phase": "data", "place": ""}
    return Event(number=0, kind=EventKind.STRAGGLER, state=state, text=text, **times, **place)


def shown(found, *events, problems=()):
    run = LiveRun(None, snapshot=found, problems=list(problems))
    run.events.extendleft(events)
    return shown_text(live.shown(run))


def test_figures_ranks_and_events_stand_on_the_page():
    late = RankView(1, "node1", 0.01, 0.01, "data", is_named=True)
    same = RankView(0, "node0", -0.01, 0.0, "", is_named=False)
    text = shown(
        snapshot(ranks=[same, late], costs_s={"straggler": 0.01}),
        event("Rank <b>1</b> is slow."),
        problems=["it is so."],
    )
    assert "400 samples/s (-20 % against the begin), 40.0 ms per step; 2 ranks, step 640" in text
    assert "waiting for the slowest rank" in text
    assert "rank 1" in text
    assert "rank 0" not in text
    assert "Rank <b>1</b> is slow." in text
    assert "Note: it is so." in text


@pytest.mark.parametrize("state", EventState)
def test_events_of_every_state_stand_on_the_page(state):
    text = shown(snapshot(), event("It was so.", state=state))
    assert f"straggler {state}" in text
    assert "It was so." in text


def test_nothing_is_said_of_ranks_before_there_are_steps():
    text = shown(snapshot(step_s=NAN))
    assert "No steps of all ranks yet." in text
    assert "slower than the others" not in text


def test_ranks_that_differ_little_are_not_listed():
    late, same = (RankView(one, "", 0.001 * one, 0.001, "", is_named=False) for one in (1, 0))
    text = shown(snapshot(ranks=[late, same]))
    assert "No rank is 5 % or more of a step slower than the others." in text


def test_nothing_is_claimed_of_ranks_whose_waits_are_unseen():
    text = shown(snapshot(ranks=[]))
    assert "Whether ranks differ is not known" in text
    assert "No rank is" not in text


def test_a_run_that_has_ended_without_a_watcher_says_how_to_watch(tmp_path):
    text = page_text(live, measured_run(tmp_path / "run"))
    assert "hvdprof run --light --watch --np 2 -- python train.py" in text


def test_one_watcher_serves_all_browsers_and_is_closed_when_they_are(tmp_path, monkeypatch):
    job = LiveJob(tmp_path / "job", 2)
    job.record(3)
    runs = RunStore([job.folder])
    watches = LiveWatches(runs)
    first = watches.look("job")
    assert watches.look("job") is first
    assert first.snapshot.num_ranks == 2
    assert watched_mark(job.folder).exists()
    monkeypatch.setattr("hvdprof.dashboards.live_watches._FORGET_S", -1.0)
    assert watches.look("job") is not first
    with pytest.raises(HvdprofError):
        watches.look("../job")


def test_an_open_page_says_that_its_run_has_ended(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    runs = RunStore([folder], check_every_s=0)
    with exclusive_run(folder) as writer:
        write_run(folder, [PassSpec(status="running")], status="running", writer=writer)
        assert "This page follows the run." in shown_text(live.state_line(runs, "run"))
    text = shown_text(live.state_line(runs, "run"))
    assert "The run has ended: interrupted. Below is what was seen last. Open the diag" in text
    assert '"href": "/?run=run"' in text


def test_a_run_that_has_ended_is_left_as_it_is_until_it_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("hvdprof.dashboards.live_watches._LOOK_S", 0.0)
    folder = tmp_path / "run"
    folder.mkdir()
    watches = LiveWatches(RunStore([folder], check_every_s=0))
    with exclusive_run(folder) as writer:
        write_run(folder, [PassSpec(status="running")], status="running", writer=writer)
        (recorder,) = folder.glob("passes/*/recorder")
        followed = watches.look("run")
        assert watched_mark(recorder).exists()
    before_ns = recorder.stat().st_mtime_ns
    assert watches.look("run") is followed
    assert not watched_mark(recorder).exists()
    assert recorder.stat().st_mtime_ns == before_ns
    monkeypatch.setattr(followed.watcher, "look", lambda: pytest.fail("looked again"))
    assert watches.look("run") is followed
    with exclusive_run(folder):
        assert watches.look("run") is not followed


@pytest.mark.browser
def test_a_look_that_takes_long_is_shown_and_left(tmp_path, monkeypatch):
    def look(self, run_id):
        time.sleep(2.5)
        return LiveRun(None, snapshot=snapshot())

    folder = tmp_path / "run"
    folder.mkdir()
    # Before, a second look overtook the first, a third the second, and Dash showed none.
    monkeypatch.setattr(LiveWatches, "look", look)
    with exclusive_run(folder) as writer:
        write_run(folder, [PassSpec(status="running")], status="running", writer=writer)
        with served(RunStore([folder])) as address, watched_page(address) as watched:
            show(watched, f"{address}/live?run=run")
            watched.page.get_by_text("400 samples/s").wait_for(timeout=20_000)
            # A page that is left during a look is not missed.
            watched.page.get_by_role("link", name="Ranks").click()
            wait_until(
                watched.page,
                "document.querySelector('main > *') && !document.querySelector('#live')",
            )
            watched.page.wait_for_timeout(3_000)
            assert watched.complaints == []
