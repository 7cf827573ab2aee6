import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.collect.auto.auto_settings import AUTORECORD, AutoSettings
from hvdprof.collect.auto.startup import FOLDER
from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.settings import BenchSettings, ModelSettings, ScriptSettings
from hvdprof.launch.plan.workload import (
    least_partial_steps,
    program_of,
    workload_environment,
)
from hvdprof.launch.run.bench_run import Tools
from hvdprof.launch.run.script_run import (
    ScriptChoices,
    prepare_script,
    script_name,
    script_of,
    with_own_python,
)
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Mode, PassRecord
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings
from tests.builders.survey import make_build

PATHS = PassPaths(Path("/runs/r/passes/p"))
SCRIPT = ScriptSettings(
    command=("python", "train.py"), num_timeline_steps=50, sets_threads=False, trace=True
)


def of_script(**changes):
    model = ModelSettings(name="train", batch_size=0, image_size=0)
    script = replace(SCRIPT, **{name: changes.pop(name) for name in set(changes) & TOLD})
    return bench_settings(models=(model,), script=script, **changes)


TOLD = {"trace", "sets_threads"}


def record(mode=Mode.THROUGHPUT):
    return PassRecord(
        id="p",
        mode=mode,
        size=2,
        repeat=1,
        controller="mpi",
        oversubscribed=False,
        pinned=False,
        segments=[],
    )


def test_reference_models_get_their_threads_and_no_hook():
    variables = workload_environment(bench_settings(num_threads=3), record(), PATHS, "/own")

    threads = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    assert variables == threads | {"PYTHONSAFEPATH": "1"}
    assert program_of(bench_settings(), PATHS.plan)[1:3] == ("-m", "hvdprof.bench_models.train")


def test_a_script_keeps_its_threads_and_gets_the_hook():
    settings = of_script(num_warmup_batches=5, num_steps=30)
    variables = workload_environment(settings, record(), PATHS, "/own")

    assert variables["PYTHONPATH"] == f"{FOLDER}:/own"
    assert "OMP_NUM_THREADS" not in variables
    told = AutoSettings.from_environment({AUTORECORD: variables[AUTORECORD]})
    assert (told.num_warmup_steps, told.num_steps, told.batch_size) == (5, 30, None)
    assert told.timeline == ""
    assert program_of(settings, PATHS.plan) == ("python", "train.py")


def test_threads_that_were_asked_for_are_set():
    settings = of_script(sets_threads=True, num_threads=2)

    variables = workload_environment(settings, record(), PATHS, "")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        assert variables[name] == "2"


def test_only_a_trace_pass_names_a_timeline():
    variables = workload_environment(of_script(), record(Mode.TRACE), PATHS, "")

    told = AutoSettings.from_environment({AUTORECORD: variables[AUTORECORD]})
    assert told.timeline == "/runs/r/passes/p/timeline/main.json"


def test_settings_survive_the_manifest():
    from dataclasses import asdict

    settings = of_script(trace=False)

    assert BenchSettings.from_manifest(asdict(settings)) == settings


def test_only_scripts_have_results_of_launches_that_fail():
    assert least_partial_steps(bench_settings()) is None
    assert least_partial_steps(of_script(num_warmup_batches=5)) == 25


def test_the_design_of_a_script_has_one_cell_a_size_and_no_plain_torch():
    design = plan_design(of_script(sizes=(1, 2), repeats=2), LOCAL_FOUR_CORES)

    assert [(one.mode, one.size, one.repeat) for one in design.passes] == [
        ("throughput", 1, 1),
        ("throughput", 2, 1),
        ("trace", 2, 1),
        ("throughput", 2, 2),
        ("throughput", 1, 2),
    ]
    assert {one.segment.id for launch in design.passes for one in launch.segments} == {"main"}
    assert not any(one.pinned for one in design.passes)


def test_without_trace_no_pass_has_a_timeline():
    design = plan_design(of_script(sizes=(2,), trace=False), LOCAL_FOUR_CORES)

    assert [one.mode for one in design.passes] == ["throughput"]


def test_sizes_without_slots_are_skipped_with_the_reason():
    design = plan_design(of_script(sizes=(2, 4), hosts="h1:1,h2:1"), LOCAL_FOUR_CORES)

    assert [cell.size for cell in design.skipped] == [4]
    assert "fewer than 4 slots" in design.skipped[0].reason


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train"),
        ("python -u -W ignore src/train.py", "train"),
        ("python -m pkg.train --lr 1", "pkg.train"),
        ("python -um pkg.train", "pkg.train"),
        ("python -Bmpkg.train", "pkg.train"),
        ("python -c pass", "python"),
        ("python", "python"),
        ("./train.sh", "train"),
        ("bash train.sh", "train"),
    ],
)
def test_results_are_named_after_the_script(command, name):
    assert script_name(tuple(command.split())) == name


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("/usr/bin/python3.11 -u -W ignore -Xdev src/train.py -m pkg", "src/train.py"),
        ("python -m train.py", None),
        ("python -um train.py", None),
        ("python -c train.py", None),
        ("python - train.py", None),
        ("python -W train.py", None),
        ("python folder", None),
        ("python", None),
        ("bash train.py", None),
        ("numactl python train.py", None),
    ],
)
def test_the_script_that_a_python_is_given(command, script):
    assert script_of(tuple(command.split())) == (script and Path(script))


def test_a_bare_python_is_the_one_that_runs_hvdprof():
    assert with_own_python(("python", "t.py")) == (sys.executable, "t.py")
    assert with_own_python(("/usr/bin/python3", "t.py")) == ("/usr/bin/python3", "t.py")


CHOICES = {
    "command": (sys.executable, "train.py"),
    "np": "2",
    "hosts": None,
    "batch_size": None,
    "num_warmup_batches": 5,
    "num_steps": None,
    "num_timeline_steps": 50,
    "repeats": 1,
    "trace": True,
    "num_threads": None,
    "timeout_s": 30.0,
}


def prepared(**changes):
    choices = ScriptChoices(**CHOICES | changes)
    tools = Tools(make_build(), None)
    return prepare_script(choices, tools, controller="auto", device="cpu")


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"command": ("train.py",)}, EnvironmentNotReadyError, "-- python train.py"),
        ({"command": ("no-such-program",)}, EnvironmentNotReadyError, "PATH"),
        ({"num_steps": 0}, UsageError, "--help"),
        ({"num_warmup_batches": -1}, UsageError, "--help"),
        ({"hosts": "h1:"}, UsageError, "server1:4"),
        ({"stall_warn_s": 60, "stall_kill_s": 30}, UsageError, "seen first"),
    ],
)
def test_mistakes_are_told_before_anything_starts(changes, error, told):
    with pytest.raises(error) as raised:
        prepared(**changes)
    assert told in raised.value.hint


@pytest.mark.parametrize("timeout_s", [0.0, -5.0, float("nan"), float("inf")])
def test_a_launch_of_a_script_is_given_time(timeout_s):
    with pytest.raises(UsageError, match=r"--timeout .*: must be a number of at least 1\."):
        prepared(timeout_s=timeout_s)


@pytest.mark.parametrize("hosts", [None, "localhost:1,far:1"])
def test_a_script_that_is_not_there_is_told_before_anything_starts(hosts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"There is no train\.py in {tmp_path}, so") as raised:
        prepared(hosts=hosts)
    assert "-- python path/to/train.py" in raised.value.hint
    with pytest.raises(UsageError, match=r"There is no /nowhere/train\.py, so"):
        prepared(hosts=hosts, command=(sys.executable, "/nowhere/train.py"))

    (tmp_path / "train.py").touch()
    assert prepared(hosts=hosts).settings["script"]["command"] == (sys.executable, "train.py")


@pytest.mark.parametrize(
    "changes", [{"hosts": "192.0.2.1:2"}, {"launcher": "srun"}, {"function": "train"}]
)
def test_a_script_that_is_run_elsewhere_need_not_be_here(changes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert prepared(**changes).passes
