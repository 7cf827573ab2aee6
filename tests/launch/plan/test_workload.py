import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.collect.auto.startup import FOLDER
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.settings import ModelSettings, ScriptSettings
from hvdprof.launch.plan.workload import (
    git_state,
    least_partial_steps,
    program_of,
    python_program,
    workload_environment,
)
from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import Mode, PassRecord
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings

PATHS = PassPaths(Path("/runs/r/passes/p"))
SCRIPT = ScriptSettings(command=("python", "train.py"))


def of_script(**changes):
    model = ModelSettings(name="train", batch_size=0, image_size=0)
    return bench_settings(models=(model,), script=SCRIPT, **changes)


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
    given = AutoSettings.from_environment({AUTORECORD: variables[AUTORECORD]})
    assert (given.num_warmup_steps, given.num_steps, given.batch_size) == (5, 30, None)
    assert given.timeline == ""
    assert program_of(settings, PATHS.plan) == ("python", "train.py")


def test_threads_that_were_asked_for_are_set():
    settings = of_script(num_threads=2)
    settings = replace(settings, options=replace(settings.options, num_threads=2))

    variables = workload_environment(settings, record(), PATHS, "")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        assert variables[name] == "2"


def test_only_a_trace_pass_names_a_timeline():
    variables = workload_environment(of_script(), record(Mode.TRACE), PATHS, "")

    given = AutoSettings.from_environment({AUTORECORD: variables[AUTORECORD]})
    assert given.timeline == "/runs/r/passes/p/timeline/main.json"


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


@pytest.fixture
def tree(tmp_path):
    for words in (
        ("init", "--quiet"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "begin"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, timeout=60)
    return tmp_path


def test_a_working_tree_has_a_commit_and_may_be_dirty(tree):
    assert git_state(tree)["dirty"] is False
    assert len(git_state(tree)["commit"]) == 40
    (tree / "new").touch()
    assert git_state(tree)["dirty"] is True


def test_a_tree_that_git_cannot_read_is_not_called_clean(tree):
    (tree / ".git" / "index").write_bytes(b"no index")

    assert git_state(tree)["dirty"] is None


def test_outside_of_a_working_tree(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))

    assert git_state(tmp_path) is None


def test_a_helper_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the working directory was imported')")
    monkeypatch.chdir(tmp_path)
    program = python_program("hvdprof.launch.remote.pass_files", "get", str(tmp_path))

    done = subprocess.run(program, capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, b"")
