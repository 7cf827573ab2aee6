import os
import sys
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, InterruptedRunError, UsageError
from hvdprof.launch.run.interleaved_sweeps import run_interleaved, run_race
from hvdprof.launch.run.sweep import Sweep
from hvdprof.launch.run.sweep_state import JoinedProgress
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.run_lock import exclusive_run
from tests.builders import fake_ranks
from tests.builders.bench_settings import bench_settings
from tests.launch.run.test_sweep import _manifest, _PlainLauncher, _Seen

EVENTS: list[str] = []


class _Noted(_Seen):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def pass_started(self, record):
        EVENTS.append(f"{self.name} {record.id}")


@pytest.fixture
def pair(tmp_path):
    EVENTS.clear()

    def build(fault="", **changes):
        sweeps = []
        for name in ("a", "b"):
            manifest = _manifest(bench_settings(**changes))
            root = str(Path(fake_ranks.__file__).parents[2])
            environment = {**os.environ, "PYTHONPATH": root, "FAKE_FAULT": ":"}
            if name == "b" and fault:
                environment["FAKE_FAULT"] = fault
            environment["FAKE_ONCE"] = str(tmp_path / "failed-once")
            sweeps.append(
                Sweep(
                    settings=bench_settings(**changes),
                    manifest=manifest,
                    paths=RunPaths(tmp_path / name),
                    launcher=_PlainLauncher(),
                    mpi=None,
                    progress=_Noted(name),
                    environment=environment,
                    program=lambda _, plan: (
                        sys.executable,
                        fake_ranks.__file__,
                        "--plan",
                        str(plan),
                    ),
                )
            )
        return sweeps

    return build


def statuses(sweeps):
    return [str(Manifest.read(sweep.paths.folder).status) for sweep in sweeps]


@pytest.mark.slow
def test_passes_of_both_are_neighbours_in_the_order_a_b_b_a(pair):
    sweeps = pair(sizes=(2,), repeats=2)
    run_interleaved(sweeps, lambda repeat: False)
    assert EVENTS == [
        "a 01-np2-throughput-r1",
        "b 01-np2-throughput-r1",
        "b 02-np2-trace-r1",
        "a 02-np2-trace-r1",
        "a 03-np2-throughput-r2",
        "b 03-np2-throughput-r2",
    ]
    assert statuses(sweeps) == ["done", "done"]


@pytest.mark.slow
def test_the_rest_is_dropped_once_enough_is_known(pair):
    sweeps = pair(sizes=(2,), repeats=4)
    asked = []
    run_interleaved(sweeps, lambda repeat: asked.append(repeat) or repeat == 2)
    assert asked == [1, 2]
    for sweep in sweeps:
        manifest = Manifest.read(sweep.paths.folder)
        assert [one.repeat for one in manifest.passes if one.mode == "throughput"] == [1, 2]
        assert manifest.status == Status.DONE


@pytest.mark.slow
def test_one_that_fails_does_not_end_the_other(pair):
    sweeps = pair(sizes=(2,), repeats=2, fault="start:")
    run_interleaved(sweeps, lambda repeat: False)
    assert statuses(sweeps) == ["done", "failed"]


@pytest.mark.heavy
def test_an_interruption_keeps_what_both_have(pair):
    sweeps = pair(sizes=(2,), repeats=3)

    def interrupt(repeat):
        raise InterruptedRunError("Ended by SIGINT.")

    with pytest.raises(InterruptedRunError) as raised:
        run_interleaved(sweeps, interrupt)
    assert raised.value.message == "Interrupted after 4 of 8 launches. Ended by SIGINT."
    assert statuses(sweeps) == ["interrupted", "interrupted"]
    for sweep in sweeps:
        assert Manifest.read(sweep.paths.folder).passes[0].status == Status.DONE


@pytest.mark.heavy
def test_an_interrupted_race_says_after_how_many_launches(pair):
    def interrupt(number):
        raise InterruptedRunError("Ended by SIGINT.")

    sweeps = pair(sizes=(2,), repeats=3)
    planned = sum(len(sweep.manifest.passes) for sweep in sweeps)
    with pytest.raises(InterruptedRunError) as raised:
        run_race(sweeps, interrupt)
    ended = raised.value.message
    assert ended == f"Interrupted after 4 of {planned} launches. Ended by SIGINT."


def test_no_run_is_left_running_where_the_other_is_locked(pair):
    first, second = pair(sizes=(2,))
    second.paths.folder.mkdir()
    with exclusive_run(second.paths.folder), pytest.raises(UsageError):
        run_interleaved([first, second], lambda repeat: False)
    assert statuses([first]) == ["interrupted"]


def test_no_run_is_left_running_where_a_launcher_is_missing(pair):
    sweeps = pair(sizes=(2,))
    sweeps[1].program = lambda _, plan: ("/absent/launcher",)
    with pytest.raises(EnvironmentNotReadyError):
        run_interleaved(sweeps, lambda repeat: False)
    assert statuses(sweeps) == ["interrupted", "interrupted"]
    first, second = (Manifest.read(sweep.paths.folder) for sweep in sweeps)
    assert first.passes[0].status == Status.DONE
    assert second.passes[0].status == Status.INTERRUPTED


@pytest.mark.heavy
def test_a_race_runs_forwards_and_backwards_and_drops_who_is_named(pair):
    sweeps = pair(sizes=(2,), repeats=4)
    for sweep in sweeps:
        sweep.manifest.passes = [one for one in sweep.manifest.passes if one.mode == "throughput"]
    run_race(sweeps, lambda number: sweeps[1:] if number == 2 else [])
    assert [event.split()[0] for event in EVENTS] == ["a", "b", "b", "a", "a", "a"]
    repeats = [[one.repeat for one in Manifest.read(sweep.paths.folder).passes] for sweep in sweeps]
    assert repeats == [[1, 2, 3, 4], [1, 2]]
    assert statuses(sweeps) == ["done", "done"]


@pytest.mark.slow
def test_sweeps_that_race_are_shown_as_one(pair):
    sweeps = pair(sizes=(2,), repeats=2)
    shown = _Seen()
    joined = JoinedProgress(shown, 2)
    for sweep in sweeps:
        sweep.progress = joined
    run_race(sweeps, lambda number: [])
    planned = sum(len(sweep.manifest.passes) for sweep in sweeps)
    assert shown.events[0] == f"sweep of {planned}"
    assert shown.events.count("over") == 1 and shown.events[-1] == "over"
