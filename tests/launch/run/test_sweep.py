import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.errors import InterruptedRunError, StorageError, SweepIncompleteError
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.settings import ScriptSettings, Settings, read_settings
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome, run_launcher
from hvdprof.launch.run import pass_launches
from hvdprof.launch.run.repeats import LookAtRun
from hvdprof.launch.run.resident_launch import ResidentLaunch
from hvdprof.launch.run.resident_launches import run_residents
from hvdprof.launch.run.sweep import Sweep, cells_without_result, num_failed
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import (
    MANIFEST_SCHEMA_VERSION,
    Manifest,
    PassRecord,
    SegmentRecord,
    Status,
)
from hvdprof.rundir.plan import Plan
from hvdprof.rundir.stopping import KnownCell, StopReason
from tests.builders import fake_ranks
from tests.builders.bench_settings import LOCAL_FOUR_CORES, MNIST, RESNET, bench_settings
from tests.builders.training_job import segment
from tests.launch.run.test_repeats import known

SESSION_RACE = Path(__file__).parents[2] / "rundir/launcher_failures/ompi4_session_race.txt"


class _PlainLauncher:
    def command(self, job: Job) -> list[str]:
        return list(job.program)


class _Seen:
    def __init__(self) -> None:
        self.events: list[str] = []

    def sweep_started(self, passes: list[PassRecord]) -> None:
        self.events.append(f"sweep of {len(passes)}")

    def repeat_planned(self, passes: list[PassRecord]) -> None:
        self.events.append(f"repeat of {len(passes)}")

    def pass_started(self, record: PassRecord) -> None:
        self.events.append(f"start {record.id}")

    def pass_progressed(self, record: PassRecord, progress: PassProgress) -> None:
        if progress.ranks and self.events[-1] != "progress":
            self.events.append("progress")

    def stalled(self, record: PassRecord, stall: Stall) -> None:
        self.events.append(f"stall {record.id}")

    def pass_ended(self, record: PassRecord) -> None:
        self.events.append(f"end {record.id} {record.status}")

    def sweep_ended(self) -> None:
        self.events.append("over")


def _manifest(settings: Settings) -> Manifest:
    design = plan_design(settings, LOCAL_FOUR_CORES)
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version="0",
        name="test",
        created_at="2026-11-20T22:48:41+00:00",
        command=[],
        settings=settings.record(),
        options=record_of(settings.options),
        environment={},
        versions={},
        hosts=[],
        git=None,
        passes=design.passes,
        skipped=design.skipped,
    )


@pytest.fixture
def sweep_of(tmp_path: Path) -> Callable[..., Sweep]:
    def build(manifest: Manifest | None = None, fault: str = "", **changes: Any) -> Sweep:
        if manifest is None:
            manifest = _manifest(bench_settings(**changes))
        root = str(Path(fake_ranks.__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": root, "FAKE_FAULT": fault or ":"}
        environment["FAKE_ONCE"] = str(tmp_path / "failed-once")
        return Sweep(
            settings=read_settings(manifest),
            manifest=manifest,
            paths=RunPaths(tmp_path / "run"),
            launcher=_PlainLauncher(),
            mpi=None,
            progress=_Seen(),
            environment=environment,
            program=lambda _, plan: (sys.executable, fake_ranks.__file__, "--plan", str(plan)),
        )

    return build


def _statuses(manifest: Manifest) -> dict[str, dict[str, str]]:
    return {
        record.id: {segment.segment.id: str(segment.status) for segment in record.segments}
        for record in manifest.passes
    }


@pytest.mark.slow
def test_a_sweep_in_which_all_goes_well(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(models=(MNIST, RESNET))
    sweep.run()
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.DONE
    assert _statuses(manifest) == {
        "01-np1-torch-r1": {"mnist-torch": "done", "resnet18-torch": "done"},
        "02-np1-throughput-r1": {"mnist-none-average": "done", "resnet18-none-average": "done"},
        "03-np2-throughput-r1": {"mnist-none-average": "done", "resnet18-none-average": "done"},
        "04-np2-trace-r1": {"mnist-none-average": "done", "resnet18-none-average": "done"},
    }
    record = manifest.passes[2]
    assert record.exit_code == 0
    assert record.duration_s is not None and 0 < record.duration_s < 60
    assert record.command[0] == sys.executable
    assert record.environment["OMP_NUM_THREADS"] == "1"
    assert "HOROVOD_TIMELINE" not in record.environment
    assert manifest.passes[3].environment["HOROVOD_TIMELINE"] == "DYNAMIC"
    assert record.other_cpu_cores is not None
    assert [host["hostname"] for host in manifest.hosts] == ["node1"]
    plan = Plan.read(sweep.paths.of_pass(record.id).plan)
    assert [segment.id for segment in plan.segments] == [
        "mnist-none-average",
        "resnet18-none-average",
    ]


def test_progress_is_called_in_order(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(2,))
    sweep.run()
    assert isinstance(sweep.progress, _Seen)
    assert sweep.progress.events == [
        "sweep of 2",
        "start 01-np2-throughput-r1",
        "progress",
        "end 01-np2-throughput-r1 done",
        "start 02-np2-trace-r1",
        "progress",
        "end 02-np2-trace-r1 done",
        "over",
    ]


@pytest.mark.slow
def test_a_segment_that_fails_is_explained_and_the_sweep_continues(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="raise:mnist-none-average:once")
    with pytest.raises(SweepIncompleteError, match="1 of 4 measurements failed"):
        sweep.run()
    manifest = Manifest.read(sweep.paths.folder)
    assert _statuses(manifest) == {
        "01-np2-throughput-r1": {"mnist-none-average": "failed"},
        "01-np2-throughput-r1-attempt2": {"resnet18-none-average": "done"},
        "02-np2-trace-r1": {"mnist-none-average": "done", "resnet18-none-average": "done"},
    }
    failure = manifest.passes[0].segments[0].failure
    assert failure is not None
    assert failure.reason == "rank 1 raised ValueError: bad batch"
    assert manifest.status == Status.FAILED


class _FlakyLauncher:
    """Fails twice at each start of a pass, as mpirun does that lost a race, or always."""

    def __init__(self, counts: Path, *, failures: int) -> None:
        self._counts, self._failures = counts, failures

    def command(self, job: Job) -> list[str]:
        plan = Path(job.program[-1]).parent.name
        starts = self._counts / plan
        return [
            "sh",
            "-c",
            f"echo x >> {starts}; test $(wc -l < {starts}) -gt {self._failures} "
            f"&& exec {shlex.join(job.program)}; cat {SESSION_RACE} >&2; exit 1",
        ]


def test_a_launcher_that_fails_before_its_ranks_is_started_again(
    sweep_of: Callable[..., Sweep], tmp_path: Path
) -> None:
    sweep = sweep_of(sizes=(2,))
    sweep.launcher = _FlakyLauncher(tmp_path, failures=2)
    sweep.run()
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.DONE
    assert [len(record.restarts) for record in manifest.passes] == [2, 2]
    assert "unable to create" in manifest.passes[0].restarts[0]


@pytest.mark.heavy
def test_a_launcher_that_keeps_failing_is_a_failure_with_the_advice_of_its_cause(
    sweep_of: Callable[..., Sweep], tmp_path: Path
) -> None:
    sweep = sweep_of(sizes=(2,))
    sweep.launcher = _FlakyLauncher(tmp_path, failures=9)
    with pytest.raises(SweepIncompleteError, match="2 of 2"):
        sweep.run()
    first = Manifest.read(sweep.paths.folder).passes[0]
    failure = first.segments[0].failure
    assert failure is not None
    assert failure.reason.startswith("no rank reported in: call to mkdir was unable")
    assert "set TMPDIR to a folder of this job alone" in failure.reason
    assert len(first.restarts) == 2


@pytest.mark.slow
def test_one_failed_launch_of_several_leaves_the_run_whole(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(2,), repeats=3, fault="raise:mnist-none-average:once")
    sweep.run()
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.DONE
    assert [str(s.status) for r in manifest.passes for s in r.segments].count("failed") == 1


def test_a_segment_measured_before_a_kill_is_preserved(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="kill:resnet18-none-average:once")
    with pytest.raises(SweepIncompleteError):
        sweep.run()
    first = Manifest.read(sweep.paths.folder).passes[0]
    assert [segment.status for segment in first.segments] == ["done", "failed"]
    assert first.exit_code == -signal.SIGKILL


def test_a_launch_that_never_begins_fails_all_its_segments_at_once(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="start:")
    with pytest.raises(SweepIncompleteError, match="4 of 4"):
        sweep.run()
    manifest = Manifest.read(sweep.paths.folder)
    assert len(manifest.passes) == 2
    reasons = {s.failure.reason for r in manifest.passes for s in r.segments if s.failure}
    assert reasons == {"rank 0 raised ImportError: no module named model"}


@pytest.mark.slow
def test_a_hang_before_the_first_step_of_a_segment_costs_only_that_segment(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="stuck:mnist-none-average:once")
    options = replace(sweep.settings.options, timeout_s=1.0)
    sweep.settings = replace(sweep.settings, options=options)
    with pytest.raises(SweepIncompleteError, match="1 of 4"):
        sweep.run()
    assert _statuses(Manifest.read(sweep.paths.folder))["01-np2-throughput-r1-attempt2"] == {
        "resnet18-none-average": "done"
    }


@pytest.mark.slow
def test_a_cell_that_failed_twice_is_not_tried_a_third_time(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(
        sizes=(1,), models=(MNIST, RESNET), repeats=3, fault="raise:mnist-none-average"
    )
    with pytest.raises(SweepIncompleteError, match="3 of 12"):
        sweep.run()
    last = Manifest.read(sweep.paths.folder).passes[-1].segments
    by_id = {segment.segment.id: segment for segment in last}
    failure = by_id["mnist-none-average"].failure
    assert failure is not None
    assert failure.reason == "not retried because it failed 2 times before"
    assert failure.kind == FailureKind.NOT_RETRIED
    assert by_id["resnet18-none-average"].status == "done"


@pytest.mark.waits
def test_a_hang_is_ended_and_not_waited_for_again(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(2,), repeats=2, timeout_s=1.0, fault="orphan:mnist-none-average")
    started = time.monotonic()
    with pytest.raises(SweepIncompleteError, match="3 of 3"):
        sweep.run()
    assert time.monotonic() - started < 60
    manifest = Manifest.read(sweep.paths.folder)
    failures = {record.id: record.segments[0].failure for record in manifest.passes}
    reasons = {pass_id: failure.reason for pass_id, failure in failures.items() if failure}
    # With the timeline on it is tried once more: what hangs may be the timeline.
    assert reasons["01-np2-throughput-r1"].startswith("no progress on any rank for 1")
    assert reasons["02-np2-trace-r1"].startswith("no progress on any rank for 1")
    assert reasons["03-np2-throughput-r2"] == "not retried because it hung before"
    first = failures["01-np2-throughput-r1"]
    assert first is not None and first.rank == 1


SCRIPT = ScriptSettings(
    command=("train",),
)


def _end(launches: list[ResidentLaunch]) -> None:
    for launch in launches:
        launch.end()


def test_a_script_that_fails_beside_another_launch_is_run_by_itself(
    sweep_of: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(script=SCRIPT, trace=False, turn_s=0.1)
    ran: list[list[str]] = []

    def together(launches: list[ResidentLaunch], fits: object) -> list[LaunchOutcome]:
        ran.append([launch.models[0] for launch in launches])
        # The first one records everything; the second one finds its port taken.
        _end(launches)
        return [run_launcher(launches[0].launch), LaunchOutcome(1, False, 0.1)]

    monkeypatch.setattr(pass_launches, "run_residents", together)
    sweep.run()

    manifest = Manifest.read(sweep.paths.folder)
    assert ran == [["mnist", "mnist"]]
    assert _statuses(manifest) == {
        "01-np1-throughput-r1": {"main": "done"},
        "02-np2-throughput-r1-attempt2": {"main": "done"},
    }
    assert manifest.settings["turn_s"] is None
    assert manifest.settings["no_turns"] == "np=2 failed beside the others"


@pytest.mark.slow
@pytest.mark.parametrize("available_bytes", [None, 2**20])
def test_launches_of_a_script_without_room_are_run_one_after_the_other(
    sweep_of: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch, available_bytes: int | None
) -> None:
    sweep = sweep_of(script=SCRIPT, trace=False, turn_s=0.1)
    monkeypatch.setattr(pass_launches, "available_memory_bytes", lambda: available_bytes)

    def together(
        launches: list[ResidentLaunch], fits: Callable[[int], bool]
    ) -> list[LaunchOutcome]:
        assert not fits(2**30)
        _end(launches)
        return [run_launcher(launch.launch) for launch in launches]

    monkeypatch.setattr(pass_launches, "run_residents", together)
    sweep.run()

    settings = Manifest.read(sweep.paths.folder).settings
    assert settings["no_turns"] == "they do not fit into memory together"


def test_launches_whose_ranks_reach_no_gate_are_run_one_after_the_other(
    sweep_of: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(script=SCRIPT, trace=False, turn_s=0.1)
    durations_s: list[float] = []
    spans_s: list[tuple[float, float]] = []

    def noted(launches: list[ResidentLaunch], fits: Callable[[int], bool]) -> list[LaunchOutcome]:
        for launch in launches:
            monkeypatch.setattr(launch, "start", _timed(launch.start, spans_s))
            monkeypatch.setattr(launch, "end", _timed(launch.end, spans_s))
        outcomes = run_residents(launches, fits)
        durations_s.extend(outcome.duration_s for outcome in outcomes)
        return outcomes

    monkeypatch.setattr(pass_launches, "run_residents", noted)
    sweep.run()

    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.settings["no_turns"] == "the ranks of one ended without waiting for a turn"
    (_, first_end_s), (second_start_s, _) = spans_s[1], spans_s[2]
    assert len(durations_s) == 2 and first_end_s <= second_start_s
    # Nothing of the time of one belongs to the other.
    found_s = [record.duration_s for record in manifest.passes]
    assert found_s == [round(duration_s, 3) for duration_s in durations_s]


def _timed(act: Callable[[], None], spans_s: list[tuple[float, float]]) -> Callable[[], None]:
    def timed() -> None:
        begin_s = time.monotonic()
        act()
        spans_s.append((begin_s, time.monotonic()))

    return timed


def test_a_recording_that_lacks_a_segment_is_a_failure_not_a_result(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), fault="silent:mnist-none-average:once")
    with pytest.raises(SweepIncompleteError, match="1 of 2"):
        sweep.run()
    failure = Manifest.read(sweep.paths.folder).passes[0].segments[0].failure
    assert failure is not None
    assert "the recording is not complete" in failure.reason


def test_a_pass_that_was_not_even_started_fails_by_its_reason(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,))
    gone = Failure(reason="host far, which ran rank 1, has vanished (no answer)", rank=1)
    sweep.run_launch = lambda launch: LaunchOutcome(1, False, 0.0, gone)
    with pytest.raises(SweepIncompleteError, match="2 of 2"):
        sweep.run()
    assert Manifest.read(sweep.paths.folder).passes[0].segments[0].failure == gone


@pytest.mark.heavy
def test_the_first_of_many_ranks_that_failed_is_found(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(512,))
    frame = '  File "/home/user/train/loop.py", line 1, in step\n    loss.backward()\n'

    def run(launch: Launch) -> LaunchOutcome:
        launch.paths.stdout.touch()
        with launch.paths.stderr.open("w") as file:
            for rank in (500, *range(500), *range(501, 512)):
                error = "ValueError: bad batch" if rank == 500 else "HorovodInternalError: gone"
                text = f"Traceback (most recent call last):\n{frame * 12}{error}\n"
                file.writelines(f"[1,{rank}]<stderr>:{line}\n" for line in text.splitlines())
        return LaunchOutcome(1, False, 1.0)

    sweep.run_launch = run
    with pytest.raises(SweepIncompleteError):
        sweep.run()
    failure = Manifest.read(sweep.paths.folder).passes[0].segments[0].failure
    assert failure is not None
    assert failure.reason == "rank 500 raised ValueError: bad batch"


def _interrupt_when(condition: Callable[[], bool]) -> threading.Thread:
    main = threading.main_thread().ident
    assert main is not None

    def wait() -> None:
        while not condition():
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_what_it_has_and_is_resumed(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="hang:resnet18-none-average:once")
    running = sweep.paths.of_pass("01-np2-throughput-r1").recorder_file(0)
    thread = _interrupt_when(
        lambda: running.exists() and '"id": "resnet18-none-average"' in running.read_text()
    )
    with pytest.raises(InterruptedRunError) as raised:
        sweep.run()
    thread.join()
    assert f"--resume {sweep.paths.folder}" in raised.value.hint
    assert raised.value.message == "Interrupted after 0 of 2 launches. Ended by SIGINT."
    assert isinstance(sweep.progress, _Seen)
    assert sweep.progress.events[-1] == "over"
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.INTERRUPTED
    assert _statuses(manifest)["01-np2-throughput-r1"] == {
        "mnist-none-average": "done",
        "resnet18-none-average": "interrupted",
    }

    sweep_of(manifest).run()
    resumed = Manifest.read(sweep.paths.folder)
    assert resumed.status == Status.DONE
    assert _statuses(resumed) == {
        "01-np2-throughput-r1": {"mnist-none-average": "done"},
        "01-np2-throughput-r1-attempt2": {"resnet18-none-average": "done"},
        "02-np2-trace-r1": {"mnist-none-average": "done", "resnet18-none-average": "done"},
    }


@pytest.mark.slow
def test_resuming_tries_what_failed_again(sweep_of: Callable[..., Sweep]) -> None:
    with pytest.raises(SweepIncompleteError):
        sweep_of(sizes=(2,), fault="raise:mnist-none-average").run()
    sweep = sweep_of(Manifest.read(sweep_of(sizes=(2,)).paths.folder))
    sweep.run()
    resumed = Manifest.read(sweep.paths.folder)
    assert resumed.status == Status.DONE
    assert {record.id for record in resumed.passes} == {
        "01-np2-throughput-r1-attempt2",
        "02-np2-trace-r1-attempt2",
    }


@pytest.mark.slow
def test_what_failed_beside_an_attempt_is_tried_again_in_files_of_its_own(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET), fault="raise:mnist-none-average:once")
    with pytest.raises(SweepIncompleteError):
        sweep.run()
    sweep_of(Manifest.read(sweep.paths.folder)).run()
    resumed = Manifest.read(sweep.paths.folder)
    assert [record.id for record in resumed.passes] == [
        "01-np2-throughput-r1-attempt3",
        "01-np2-throughput-r1-attempt2",
        "02-np2-trace-r1",
    ]
    for record, cell in zip(resumed.passes, ("mnist", "resnet18"), strict=False):
        text = sweep.paths.of_pass(record.id).recorder_file(0).read_text()
        assert {
            line["id"] for line in map(json.loads, text.splitlines()) if line["kind"] == "segment"
        } == {f"{cell}-none-average"}


def _looked(*half_widths: float) -> tuple[list[float], LookAtRun]:
    """What a run of mnist is known to at look after look, and the looks that were taken."""
    seen: list[float] = []

    def look(folder: Path, confidence: float) -> list[KnownCell]:
        assert Manifest.read(folder).status == Status.RUNNING
        seen.append(half_widths[len(seen)])
        return [known("mnist", seen[-1])]

    return seen, look


@pytest.mark.slow
def test_a_sweep_with_a_precision_plans_repeats_until_it_is_reached(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), precision=0.05, repeats=6)
    seen, sweep.look = _looked(0.3, 0.2, 0.04)
    sweep.run()
    assert seen == [0.3, 0.2, 0.04]
    manifest = Manifest.read(sweep.paths.folder)
    assert [record.id for record in manifest.passes] == [
        "01-np2-throughput-r1",
        "02-np2-trace-r1",
        "03-np2-throughput-r2",
        "04-np2-throughput-r3",
    ]
    assert manifest.status == Status.DONE
    assert manifest.stop is not None and manifest.stop.reason == StopReason.PRECISION
    assert [look.repeat for look in manifest.looks] == [1, 2, 3]
    spent_s = sum(record.duration_s or 0 for record in manifest.passes)
    assert spent_s <= manifest.elapsed_s < spent_s + 60
    assert isinstance(sweep.progress, _Seen)
    assert [event for event in sweep.progress.events if " of " in event] == [
        "sweep of 2",
        "repeat of 1",
        "repeat of 1",
    ]


@pytest.mark.slow
def test_a_resumed_sweep_goes_on_with_its_rule_and_the_time_already_used(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), precision=0.05, repeats=6, budget_s=500.0)
    _, look = _looked(0.3)

    def interrupted(folder: Path, confidence: float) -> list[KnownCell]:
        if any(record.repeat == 2 for record in sweep.manifest.passes):
            raise InterruptedRunError("Ctrl-C")
        return look(folder, confidence)

    sweep.look = interrupted
    with pytest.raises(InterruptedRunError) as raised:
        sweep.run()
    assert raised.value.message == "Interrupted after 3 of 3 launches. Ctrl-C"
    manifest = Manifest.read(sweep.paths.folder)
    assert (manifest.status, manifest.stop) == (Status.INTERRUPTED, None)

    manifest.elapsed_s = 500.0
    resumed = sweep_of(manifest)
    _, resumed.look = _looked(0.2)
    resumed.run()
    done = Manifest.read(sweep.paths.folder)
    assert len(done.passes) == 3
    assert done.status == Status.DONE
    assert done.elapsed_s > 500
    assert done.stop is not None and done.stop.reason == StopReason.BUDGET


def test_a_sweep_with_a_precision_needs_a_look(sweep_of: Callable[..., Sweep]) -> None:
    with pytest.raises(ValueError, match="needs a look"):
        sweep_of(sizes=(2,), precision=0.05).run()


def test_a_launch_that_outlived_its_hvdprof_does_not_compete_with_the_next(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,))
    killed = sweep.manifest.passes[0]
    killed.status = Status.RUNNING
    recordings = sweep.paths.of_pass(killed.id).recorder_folder
    left = subprocess.Popen(
        ["sleep", "300"],
        env={**os.environ, "HVDPROF_RECORDER_DIR": str(recordings)},
        start_new_session=True,
    )
    try:
        sweep.run()
        assert left.wait(20) != 0
    finally:
        left.kill()
        left.wait()
    assert [record.id for record in sweep.manifest.passes] == [
        "01-np2-throughput-r1-attempt2",
        "02-np2-trace-r1",
    ]


@pytest.mark.slow
def test_what_all_ranks_had_ended_before_hvdprof_was_killed_is_not_measured_anew(
    sweep_of: Callable[..., Sweep],
) -> None:
    sweep = sweep_of(sizes=(2,), models=(MNIST, RESNET))
    sweep.run()
    # As the manifest stood while the first launch ran, and the files when it was cut off.
    killed = sweep.manifest.passes[0]
    sweep.manifest.status = killed.status = Status.RUNNING
    for interrupted in killed.segments:
        interrupted.status = Status.PLANNED
    sweep.manifest.write(sweep.paths)
    for rank in range(2):
        path = sweep.paths.of_pass(killed.id).recorder_file(rank)
        text = path.read_text()
        path.write_text(text[: text.index('"segment_end"', text.index('"segment_end"') + 1)])

    sweep_of(Manifest.read(sweep.paths.folder)).run()

    resumed = Manifest.read(sweep.paths.folder)
    first, second = killed.segments
    assert _statuses(resumed)[killed.id] == {first.segment.id: "done"}
    assert _statuses(resumed)[f"{killed.id}-attempt2"] == {second.segment.id: "done"}


def test_a_full_disk_ends_the_sweep_with_what_was_measured(
    sweep_of: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of()
    done = sweep.paths.of_pass("02-np1-throughput-r1").recorder_file(0)
    monkeypatch.setattr(
        "hvdprof.launch.plan.preflight.free_bytes", lambda _: 10 if done.exists() else 10**12
    )
    with pytest.raises(StorageError, match="0 MB of disk space left") as raised:
        sweep.run()
    assert "--resume" in raised.value.hint
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.INTERRUPTED
    assert _statuses(manifest)["02-np1-throughput-r1"]["mnist-none-average"] == "done"
    assert _statuses(manifest)["03-np2-throughput-r1"]["mnist-none-average"] == "planned"


def test_on_a_full_disk_the_manifest_is_written_into_the_disk_reserve(
    sweep_of: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(fault="raise:mnist-none-average", sizes=(2,))
    write, written = Manifest.write, []

    def write_where_there_is_room(manifest: Manifest, paths: RunPaths) -> None:
        written.append(manifest.status)
        # Full from the end of the first pass on.
        if len(written) > 2 and paths.disk_reserve.exists():
            raise StorageError("Could not write manifest.json: No space left on device.")
        write(manifest, paths)

    monkeypatch.setattr(Manifest, "write", write_where_there_is_room)
    monkeypatch.setattr(
        "hvdprof.launch.plan.preflight.free_bytes", lambda _: 10 if len(written) > 1 else 10**12
    )
    with pytest.raises(StorageError, match="0 MB of disk space left") as raised:
        sweep.run()
    assert "What was measured is kept" in raised.value.hint
    assert not sweep.paths.disk_reserve.exists()
    manifest = Manifest.read(sweep.paths.folder)
    assert manifest.status == Status.INTERRUPTED
    (failed,) = [
        segment.failure
        for record in manifest.passes
        for segment in record.segments
        if segment.failure is not None
    ]
    assert "0 MB of disk space left" in failed.reason


def test_secrets_do_not_reach_the_manifest(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(sizes=(2,))
    sweep.program = lambda _, plan: (
        *(sys.executable, fake_ranks.__file__, "--plan", str(plan)),
        *("--token=abc123",),
    )
    sweep.run()
    text = sweep.paths.manifest.read_text()
    assert "abc123" not in text
    assert json.loads(text)["passes"][0]["command"][-1] == "--token=***"


def _passes(mode: str, *statuses: str, size: int = 2, session: int | None = None):
    return [
        PassRecord(
            id=f"{number:02d}-{mode}",
            mode=mode,
            size=size,
            repeat=number,
            controller="mpi",
            oversubscribed=False,
            pinned=False,
            segments=[SegmentRecord(segment=segment("mnist"), status=status)],
            session=session,
        )
        for number, status in enumerate(statuses, start=1)
    ]


@pytest.mark.parametrize(
    ("throughput", "lacking"),
    [
        (["done"], 0),
        (["failed"], 1),
        (["partial"], 1),
        (["done", "done", "failed"], 0),
        (["done", "failed"], 1),
        (["done", "failed", "failed"], 1),
        (["done", "done", "partial", "failed"], 0),
        (["planned", "planned"], 0),
    ],
)
def test_a_cell_needs_as_many_launches_as_an_interval(throughput: list[str], lacking: int) -> None:
    assert cells_without_result(_passes("throughput", *throughput)) == lacking


def test_a_trace_that_fails_leaves_the_number_and_is_all_where_nothing_else_is_planned() -> None:
    trace = _passes("trace", "failed")
    assert cells_without_result([*_passes("throughput", "done"), *trace]) == 0
    assert cells_without_result(trace) == 1
    assert num_failed([*_passes("throughput", "done"), *trace]) == 1


def test_every_cell_counts_by_itself() -> None:
    passes = [*_passes("throughput", "failed"), *_passes("throughput", "done", size=4)]
    assert cells_without_result(passes) == 1


def test_an_elastic_job_has_no_other_launch_that_stands_for_a_failure() -> None:
    sessions = _passes("throughput", "done", "done", "failed", session=1)
    assert cells_without_result(sessions) == 1
