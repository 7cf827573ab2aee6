import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.api import (
    SelftestMeasurement,
    TuningMeasurement,
    job_script,
    measure_net,
    measured_runs,
    measurement,
    queue,
)
from hvdprof.api.measured_runs import (
    launch_title,
    options_of,
    plan_measurement,
    plan_resume,
    resume,
)
from hvdprof.api.measurement import Measurement
from hvdprof.api.options import (
    BenchOptions,
    NetOptions,
    RunOptions,
    SelftestOptions,
    TuneOptions,
)
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.run.bench_run import planned_manifest
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.launch.run.sweep import Sweep
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.resume_file import write_resume_file
from tests.builders.bench_settings import (
    FOUR_CORES,
    LOCAL_FOUR_CORES,
    bench_options,
    bench_settings,
)
from tests.builders.run_directory import write_run
from tests.builders.survey import make_build, make_mpi


def test_the_job_asks_for_the_largest_number_of_ranks(tmp_path: Path) -> None:
    options = BenchOptions(np=[2, 8], num_threads=3, launcher="srun", output=tmp_path / "run")
    script = job_script(options, display=["--quiet"])
    assert (script.num_ranks, script.cpus_per_task, script.name) == (8, 3, "bench")
    assert script.path == tmp_path / "run.sbatch"
    assert list(script.command)[-9:] == [
        *("--output", str(tmp_path / "run"), "--quiet"),
        *("--np", "2,8", "--launcher", "srun", "--num-threads", "3"),
    ]


def test_options_of_the_script_stay_its_own(tmp_path: Path) -> None:
    train = (sys.executable, "-c", "pass", "--output", "weights")
    script = job_script(RunOptions(np=2, launcher="srun", command=train, output=tmp_path / "r"))
    words = list(script.command)
    assert words[words.index("--") + 1 :] == list(train)
    assert words[: words.index("--")].count("--output") == 1


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (BenchOptions(np=2), "--launcher srun"),
        (BenchOptions(launcher="srun"), "--np 1,2,4,8"),
    ],
)
def test_what_cannot_be_queued(options: BenchOptions, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        job_script(options)
    assert hint in raised.value.hint


def test_a_script_is_not_overwritten(tmp_path: Path) -> None:
    script = job_script(BenchOptions(np=2, launcher="srun", output=tmp_path / "run"))
    script.path.write_text("mine")
    with pytest.raises(StorageError, match="not overwritten"):
        queue(script)
    assert script.path.read_text() == "mine"


TORCH, *_ = PASSES = plan_design(bench_settings(), LOCAL_FOUR_CORES).passes


def test_a_launch_is_named_by_ranks_and_mode() -> None:
    assert [launch_title(record) for record in PASSES] == [
        "1 rank, plain torch, repeat 1",
        "1 rank, throughput, repeat 1",
        "2 ranks, throughput, repeat 1",
        "2 ranks, trace, repeat 1",
    ]


def test_ddp_and_elastic_launches_are_named_as_such() -> None:
    settings = bench_settings(engines=("ddp",), sizes=(2,))
    titles = {launch_title(one) for one in plan_design(settings, LOCAL_FOUR_CORES).passes}
    assert "2 ranks, DDP, throughput, repeat 1" in titles
    assert launch_title(replace(PASSES[1], session=0)) == "elastic, throughput, repeat 1"


@pytest.mark.parametrize(
    ("engine", "title"),
    [
        ("collectives", "2 ranks, torch.distributed, throughput, repeat 1"),
        ("fsdp", "2 ranks, FSDP2, throughput, repeat 1"),
        ("ddp", "2 ranks, DDP, throughput, repeat 1"),
    ],
)
def test_a_script_of_torch_distributed_is_named_once_its_ranks_have_said_so(engine, title) -> None:
    (record,) = [one for one in PASSES if one.size == 2 and one.mode == "throughput"]
    planned = record.segments[0]
    named = replace(planned, segment=replace(planned.segment, engine=engine))
    assert launch_title(replace(record, segments=[named], status=Status.DONE)) == title
    running = replace(record, segments=[named], status=Status.RUNNING)
    known = title if engine != "collectives" else "2 ranks, throughput, repeat 1"
    assert launch_title(running) == known


TOOLS = Tools(make_build(), make_mpi())


def _planned(options: BenchOptions) -> Manifest:
    manifest = planned_manifest(bench_settings(), FOUR_CORES, TOOLS)
    manifest.name = "bench"
    manifest.options = record_of(options)
    return manifest


@pytest.mark.parametrize(
    ("options", "launches"),
    [
        (
            BenchOptions(np=2, models="mnist", repeats=1),
            ["01-np2-throughput-r1", "02-np2-trace-r1"],
        ),
        (RunOptions(np=2, command=("bash",), trace=False), ["01-np2-throughput-r1"]),
    ],
)
def test_options_are_planned_by_their_class(
    options: BenchOptions | RunOptions, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_runs, "find_tools", lambda *_: TOOLS)
    planned = plan_measurement(options)
    assert [launch.id for launch in planned.launches()] == launches
    assert options_of(planned.manifest) == options


@pytest.mark.parametrize(
    "start",
    [
        lambda: plan_measurement(BenchOptions(np=1, models="mnist")),
        lambda: plan_measurement(RunOptions(np=1, command=("python", "train.py"))),
        lambda: TuningMeasurement(TuneOptions(np=2, command=("bash", "-c", "true"))),
        lambda: SelftestMeasurement(SelftestOptions()),
        lambda: measure_net(NetOptions(hosts="h1,h2")),
        lambda: job_script(BenchOptions(np=1, launcher="srun"), display=()),
    ],
)
def test_a_start_in_a_deleted_directory_names_it_instead_of_horovod(
    start: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match=f"working directory {gone} was deleted"):
        start()


def test_options_are_checked_before_horovod_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Tools:
        raise AssertionError("Horovod was looked for")

    monkeypatch.setattr(measured_runs, "find_tools", never)
    with pytest.raises(UsageError, match="'lenet' is not known"):
        plan_measurement(BenchOptions(models=["lenet"]))
    with pytest.raises(UsageError, match="Missing: the script"):
        plan_measurement(RunOptions(np=2))


def test_a_run_is_measured_again_with_the_options_of_its_manifest(tmp_path: Path) -> None:
    given = bench_options(np=[1, 2], models=("mnist",), net=False, data_dir=tmp_path)
    folder = Measurement(_planned(given), TOOLS, None, output=tmp_path / "r").make_folder()
    assert options_of(Manifest.read(folder)) == given


def test_a_run_of_an_earlier_version_has_no_options(tmp_path: Path) -> None:
    assert options_of(Manifest.read(write_run(tmp_path, []))) is None


def test_options_of_another_version_are_refused() -> None:
    manifest = _planned(bench_options())
    manifest.options["num_gpus_per_hour"] = 3
    with pytest.raises(UnreadableInputError, match="num_gpus_per_hour"):
        options_of(manifest)


@pytest.mark.parametrize(("recorded", "given", "net"), [(False, None, False), (False, True, True)])
def test_a_resumed_run_measures_the_network_as_it_began(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: bool,
    given: bool | None,
    net: bool,
) -> None:
    monkeypatch.setattr(measured_runs, "find_tools", lambda *_: TOOLS)
    manifest = _planned(bench_options(net=recorded))
    folder = Measurement(manifest, TOOLS, None, output=tmp_path / "r").make_folder()
    asked: list[Sweep] = []
    monkeypatch.setattr(measurement, "measure_network", asked.append)
    plan_resume(folder, net=given).ready_hosts()
    assert bool(asked) == net


def _made(folder: Path, options: BenchOptions | RunOptions) -> Path:
    return plan_measurement(replace(options, output=folder)).make_folder()


@pytest.fixture
def script_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured_runs, "find_tools", lambda *_: TOOLS)
    command = ("bash", "-c", "true", "--api-key", "Zq7wX2kLpR9vT4")
    return _made(tmp_path / "run", RunOptions(np=2, command=command, env=("A=1",)))


def test_a_run_is_resumed_with_the_secrets_of_its_command(script_run: Path) -> None:
    assert "Zq7wX2kLpR9vT4" not in RunPaths(script_run).manifest.read_text()
    planned = plan_resume(script_run)
    assert planned.is_own
    assert planned.settings.script is not None
    assert planned.settings.script.command[-1] == "Zq7wX2kLpR9vT4"
    assert script_run.stat().st_mode & 0o777 == 0o700


def test_a_run_of_somebody_else_starts_nothing_by_itself(
    script_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    planned = plan_resume(script_run)
    assert not planned.is_own
    with pytest.raises(UsageError, match="would start A=1 bash -c true --api-key"):
        resume(script_run)
    started = []
    monkeypatch.setattr(Measurement, "measure", lambda one: started.append(one) or one.folder)
    assert resume(script_run, yes=True) == script_run and started


def test_a_run_of_an_earlier_version_is_resumed_after_a_question(script_run: Path) -> None:
    stored = json.loads(RunPaths(script_run).resume.read_text())
    RunPaths(script_run).resume.unlink()
    with pytest.raises(UsageError, match=r"lacks resume\.json, which holds the secrets"):
        plan_resume(script_run)
    manifest = RunPaths(script_run).manifest
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | stored))
    planned = plan_resume(script_run)
    assert not planned.is_own
    assert planned.what_starts() == ["A=1 bash -c true --api-key Zq7wX2kLpR9vT4"]


def _as_schema_1(folder: Path, **settings: object) -> None:
    """Write the files of a run as a version did that copied options into the settings."""
    paths = RunPaths(folder)
    manifest, given = (json.loads(path.read_text()) for path in (paths.manifest, paths.resume))
    for content in (manifest, given):
        content["settings"] |= {"stall_warn_s": 60.0, "seed": 0, "variables": {}, **settings}
        content["settings"]["script"] |= {"trace": True, "elastic": None, "variables": {"A": "1"}}
    write_resume_file(paths, given["settings"], given["options"])
    given = json.loads(paths.resume.read_text())
    for path, content in ((paths.manifest, manifest), (paths.resume, given)):
        path.write_text(json.dumps(content | {"schema_version": 1}))


def test_a_run_of_schema_1_is_resumed_as_its_own_and_with_its_secrets(script_run: Path) -> None:
    before = plan_resume(script_run).settings
    _as_schema_1(script_run)
    planned = plan_resume(script_run)
    assert planned.is_own
    assert planned.settings == before
    assert planned.settings.variables == {"A": "1"}


def test_a_run_of_schema_1_with_an_unknown_setting_says_which_version_resumes_it(
    script_run: Path,
) -> None:
    _as_schema_1(script_run, speed=3)
    with pytest.raises(UnreadableInputError, match="'speed', unknown here") as raised:
        plan_resume(script_run)
    assert "resume with that version" in str(raised.value.hint)
