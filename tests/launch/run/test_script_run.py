import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.launch.run.script_command import script_name, script_of, with_own_python
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.launch.run.script_run import prepare_function, prepare_script
from hvdprof.rundir.json_codec import decode
from tests.builders.survey import make_build


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
        ("env X=y python train.py", "train"),
        ("/usr/bin/env -i -u HOME X=y Z=/a/b python -m pkg.train", "pkg.train"),
        ("env", "env"),
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


OPTIONS = RunOptions(command=(sys.executable, "train.py"), np="2", device="cpu", timeout_s=30.0)


def prepared(**changes):
    return prepare_script(replace(OPTIONS, **changes), Tools(make_build(), None))


@pytest.mark.parametrize(
    ("changes", "error", "hint"),
    [
        ({"command": ("train.py",)}, UsageError, "-- python path/to/train.py"),
        ({"command": ("no-such-program",)}, EnvironmentNotReadyError, "PATH"),
        ({"command": ()}, UsageError, "--np 2 -- python train.py"),
        ({"np": None}, UsageError, f"--np 1,2 -- {sys.executable} train.py"),
        ({"min_np": 1}, UsageError, "--host-discovery-script"),
        ({"hosts": "h1:"}, UsageError, "server1:4"),
        ({"stall_warn_s": 60, "stall_kill_s": 30}, UsageError, "reported first"),
    ],
)
def test_mistakes_are_reported_before_anything_starts(changes, error, hint):
    with pytest.raises(error) as raised:
        prepared(**changes)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "--num-steps 0: must be a number of at least 1."),
        ({"num_warmup_batches": -1}, "--num-warmup-batches -1: must be a number of at least 0."),
        ({"num_timeline_steps": 0}, "--timeline-steps 0: must be a number of at least 1."),
        ({"repeats": 0}, "--repeats 0: must be a number of at least 1."),
        ({"controller": "glo"}, "--controller glo: not known."),
    ],
)
def test_numbers_and_names_are_checked(changes, message):
    with pytest.raises(UsageError) as raised:
        prepared(**changes)
    assert raised.value.message == message


@pytest.mark.parametrize("timeout_s", [0.0, -5.0, float("nan"), float("inf")])
def test_a_launch_of_a_script_is_given_time(timeout_s):
    with pytest.raises(UsageError, match=r"--timeout .*: must be a number of at least 1\."):
        prepared(timeout_s=timeout_s)


@pytest.mark.parametrize("hosts", [None, "localhost:1,far:1"])
def test_a_missing_script_is_reported_before_anything_starts(hosts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=rf"The file train\.py does not exist in {tmp_path}\."
    ) as raised:
        prepared(hosts=hosts)
    assert "-- python path/to/train.py" in raised.value.hint
    with pytest.raises(UsageError, match=r"The file /nowhere/train\.py does not exist\."):
        prepared(hosts=hosts, command=(sys.executable, "/nowhere/train.py"))

    (tmp_path / "train.py").touch()
    assert prepared(hosts=hosts).settings["script"]["command"] == (sys.executable, "train.py")


@pytest.mark.parametrize("changes", [{"hosts": "192.0.2.1:2"}, {"launcher": "srun"}])
def test_a_script_that_is_run_elsewhere_need_not_be_here(changes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert prepared(**changes).passes


def test_a_function_needs_no_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = FunctionOptions(np=[1, 2], device="cpu", name="tuned")
    manifest = prepare_function(options, "train", Tools(make_build(), None), controller="gloo")
    assert manifest.passes
    assert (manifest.name, manifest.command) == ("tuned", ["horovod.run", "train"])
    assert manifest.settings["script"]["is_function"]
    assert manifest.settings["sizes"] == (1, 2)


def test_the_manifest_records_the_options_that_were_given():
    given = RunOptions(command=("bash",), np=[2, 4], device="cpu", hosts="192.0.2.1:4", net=False)
    manifest = prepare_script(given, Tools(make_build(), None))
    recorded = json.loads(json.dumps(manifest.options))
    assert decode(RunOptions, recorded, "options") == given


def test_a_script_without_python_that_does_not_exist_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"The file nope\.py does not exist in "):
        prepared(command=("nope.py",))
    (tmp_path / "nope.py").touch()
    with pytest.raises(EnvironmentNotReadyError) as raised:
        prepared(command=("nope.py",))
    assert "-- python nope.py" in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "turn_s", "reason"),
    [
        ({}, 1.0, ""),
        ({"np": "2"}, None, ""),
        ({"interleave": False}, None, ""),
        ({"hosts": "localhost:1,far:1"}, None, "several hosts"),
        ({"device": "cuda"}, None, "GPUs"),
    ],
)
def test_launches_at_several_sizes_take_turns_where_they_can(changes, turn_s, reason):
    build = make_build(cuda_available=True, cuda_device_count=2)
    given = {"command": (sys.executable, "-c", "pass"), "np": "1,2", "device": "cpu"} | changes
    settings = prepare_script(RunOptions(**given), Tools(build, None)).settings

    assert settings["turn_s"] == turn_s
    assert reason in settings["no_turns"] and bool(reason) == bool(settings["no_turns"])


def test_functions_are_measured_one_after_the_other():
    options = FunctionOptions(np=(1, 2))
    manifest = prepare_function(options, "train", Tools(make_build(), None), controller="gloo")

    assert manifest.settings["turn_s"] is None
    assert "functions" in manifest.settings["no_turns"]


def test_the_python_behind_env_is_that_of_hvdprof():
    command = ("env", "X=y", "python", "train.py")

    assert with_own_python(command) == ("env", "X=y", sys.executable, "train.py")
    assert script_of(command) == Path("train.py")
    assert with_own_python(("env", "X=y", "./train.sh")) == ("env", "X=y", "./train.sh")
