"""Functions under the recorder in open sessions of Spark and Ray, with real Horovod."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders.places import ROOT
from tests.builders.user_function import BATCH

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(900)]

STEPS = 512 // 2 // BATCH
NEEDS = {"spark": ("pyspark", "java"), "ray": ("ray", None)}


@pytest.fixture(scope="module", params=["spark", "ray"])
def session(request, tmp_path_factory):
    package, program = NEEDS[request.param]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install '.[{request.param}]'")
    if program and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed, which {package} needs")
    folder = tmp_path_factory.mktemp(request.param)
    root = ROOT
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.builders.session_driver", request.param, str(folder)],
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, "PYTHONPATH": path},
        cwd=root,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    return request.param, folder, json.loads(ended.stdout.splitlines()[-1])


def own_steps(folder):
    steps = load_run(folder).steps
    of_launch = steps["pass_id"].astype(str).str.contains("throughput")
    return steps[of_launch & ~steps["warmup"]]


@pytest.mark.ran(
    "functions by `FunctionRunner` on Spark and Ray",
    "pyspark 4.3.0 with Java 17, ray 2.60.0; Gloo",
    "`local[2]`, one node",
)
def test_a_function_is_measured_and_gives_its_values(session):
    kind, folder, results = session

    assert results["returned"] == [{"rank": one, "size": 2, "steps": 2 * STEPS} for one in (0, 1)]
    manifest = Manifest.read(folder / "well")
    assert (manifest.status, manifest.command) == (Status.DONE, [kind, "train"])
    assert manifest.passes[0].command[1:] == [
        "train",
        "num_proc=2" if kind == "spark" else "num_workers=2",
    ]
    assert own_steps(folder / "well").groupby("rank").size().tolist() == [2 * STEPS - 5] * 2
    assert (folder / "well" / "passes" / "02-np2-trace-r1" / "timeline" / "main.json").is_file()
    assert len(analyze_run(load_run(folder / "well")).table("collectives"))


def test_a_killed_rank_is_named(session):
    _kind, folder, results = session
    name, message, hint = results["killed"]

    assert name == "SweepIncompleteError"
    assert "rank 1 " in message
    assert hint == f"What was measured: hvdprof analyze {folder / 'killed'}"


def test_recordings_come_back_from_ranks_that_do_not_see_the_run_also_when_one_raised(session):
    _, folder, results = session

    assert "rank 1 raised RuntimeError: on purpose" in results["carried"][1]
    assert set(own_steps(folder / "carried")["rank"]) == {0, 1}
    assert "samples/s" in analyze_run(load_run(folder / "carried")).verdict.sentence
    errors = (folder / "carried" / "passes" / "01-np2-throughput-r1" / "stderr.txt").read_text()
    assert "[1]<stderr>:Traceback" in errors


def test_a_missing_or_too_small_session_is_an_error_before_anything_starts(session):
    kind, folder, results = session

    assert results["no session"][0] == results["too large"][0] == "EnvironmentNotReadyError"
    assert f"no {kind.title()} session" in results["no session"][1]
    assert "4 ranks need as many" in results["too large"][1]
    assert not (folder / "four").exists()


def test_the_runner_of_the_tutorials(session):
    kind, folder, results = session
    if kind != "spark":
        pytest.skip("HorovodRunner is of Spark")

    assert results["runner"] == {"rank": 0, "size": 2, "steps": STEPS}
    (run,) = (folder / "runs").iterdir()
    assert [one.mode for one in Manifest.read(run).passes] == ["throughput"]


def test_what_ranks_print_on_spark_stands_in_the_run(session):
    kind, folder, _ = session
    if kind != "spark":
        pytest.skip("Ray keeps what its actors print")

    printed = (folder / "well" / "passes" / "01-np2-throughput-r1" / "stdout.txt").read_text()
    assert f"{2 * STEPS} steps" in printed
