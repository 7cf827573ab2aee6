"""`hvdprof run` on unmodified TensorFlow and Keras scripts, in an environment that has them."""

import contextlib
import importlib
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.bench_models.keras_training import keras_twin
from hvdprof.bench_models.registry import model_named
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import keras_tutorial
from tests.builders.places import ROOT, needs_tutorials
from tests.builders.running_command import wait_for

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.tensorflow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None,
        reason="no TensorFlow in this environment: make test-tensorflow",
    ),
]

# Not imported: what they import is there in the environment of these tests alone.
KERAS = str(ROOT / "tests" / "builders" / "keras_script.py")
STRATEGY = str(ROOT / "tests" / "builders" / "strategy_script.py")
TAPE = str(ROOT / "tests" / "builders" / "tape_script.py")
BATCH = 16
PARTS = ("forward", "backward", "blocked", "optimizer")
WARMUP = 5


def run(folder: Path, script: str, *options: str, **environment: str):
    """The ended command, which wrote to ``folder / "run"``; the script's options follow ``--``."""
    split = options.index("--") if "--" in options else len(options)
    own, of_script = options[:split], options[split + 1 :]
    command = [sys.executable, "-m", "hvdprof", "run", "-q", "-o", "run", *own]
    path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(ROOT)]))
    return subprocess.run(
        [*command, "--num-threads", "1", "--", "python", script, *of_script],
        cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )


def steps_of(folder: Path):
    """All steps of the throughput pass, and those that are not warm-up."""
    read = load_run(folder / "run")
    steps = read.steps[read.steps["pass_id"].astype(str).str.contains("throughput")]
    return steps, steps[~steps["warmup"]]


def shares_seen(steps, parts=PARTS):
    """For each part the share of steps that have it."""
    return {part: (steps[f"{part}_ns"] > 0).mean() for part in parts}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keras")
    ended = run(folder, KERAS, "--np", "1,2", "--controller", "gloo")
    return ended, folder


@pytest.mark.ran(
    "`hvdprof run` of Keras' `fit` ([TensorFlow](tensorflow.md))",
    "TensorFlow 2.21.0, Keras 3.15.1, Gloo",
    "one host, 2 ranks",
)
def test_a_keras_script_gets_a_verdict_without_a_change(sweep):
    ended, folder = sweep

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("keras_script on 2 ranks:")
    assert "recorder:" not in ended.stderr
    assert Manifest.read(folder / "run").status == Status.DONE


def test_samples_and_parts_of_a_compiled_step_are_seen(sweep):
    _, steps = steps_of(sweep[1])

    of_two = steps[steps["pass_id"].astype(str).str.contains("np2")]
    # 500 samples per rank: 31 whole batches and one of 4 per epoch, two epochs.
    assert set(of_two["samples"]) == {BATCH, 4}
    assert (of_two["samples"] == 4).groupby(of_two["rank"]).sum().tolist() == [2, 2]
    assert of_two.groupby("rank").size().tolist() == [64 - WARMUP] * 2
    assert min(shares_seen(of_two, ("data", *PARTS)).values()) > 0.95
    assert (steps["outside_ns"] >= 0).all()


def test_the_trace_pass_joins_timeline_and_steps(sweep):
    analysis = analyze_run(load_run(sweep[1] / "run"))

    reductions = analysis.table("collectives")
    assert len(reductions)
    assert (reductions["step"] >= WARMUP).any()
    assert len(analysis.table("overlap"))


@pytest.mark.parametrize("kind", [("--data=dataset", "--schedule"), ("--eager",)])
def test_kinds_of_keras_scripts(tmp_path, kind):
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--", *kind)
    ended = run(tmp_path, KERAS, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    printed = "".join(text.read_text() for text in (tmp_path / "run").rglob("stdout.txt"))
    assert printed.count("the weights are the same True") == 2
    if "--schedule" in kind:
        # The second epoch is past the warm-up, and halved once more.
        assert "learning rates [0.019999999552965164, 0.009999999776482582]" in printed
    _, steps = steps_of(tmp_path)
    assert steps.groupby("rank").size().tolist() == [64 - WARMUP] * 2
    assert set(steps["samples"]) == {BATCH, 4}
    seen = shares_seen(steps, ("backward", "blocked", "optimizer"))
    assert min(seen.values()) > 0.95


def test_accumulated_backward_passes_belong_to_one_step(tmp_path):
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--", "--accumulate=2")
    ended = run(tmp_path, KERAS, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, steps = steps_of(tmp_path)
    assert steps.groupby("rank").size().tolist() == [32 - WARMUP] * 2
    assert set(steps["samples"]) == {2 * BATCH, BATCH + 4}


def test_a_call_on_several_batches_is_one_step(tmp_path):
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--", "--per-call=4", "--epochs=4")
    ended = run(tmp_path, KERAS, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, steps = steps_of(tmp_path)
    # 32 batches per epoch.
    assert steps.groupby("rank").size().tolist() == [32 - WARMUP] * 2
    assert set(steps["samples"]) == {4 * BATCH, 3 * BATCH + 4}
    assert min(shares_seen(steps, ("data", *PARTS)).values()) > 0.95


def test_validation_is_in_no_step(tmp_path):
    options = ("-np", "2", "--no-trace", "--", "--validate", "--epochs=3")
    ended = run(tmp_path, KERAS, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps, _ = steps_of(tmp_path)
    late = steps[steps["warmup"] & (steps["step"] >= WARMUP)]
    # The first step of each epoch but the first; the very first call is the one that is traced.
    assert sorted(late["step"].unique()) == [31, 63]


@pytest.mark.ran(
    "a loop with a tape",
    "TensorFlow 2.21.0, Gloo, Open MPI 4.1.8",
    "one host, 2 ranks",
)
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_a_loop_with_a_tape(tmp_path, controller):
    options = ("-np", "2", "--no-trace", "--controller", controller, "--", "--evaluate")
    ended = run(tmp_path, TAPE, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps, counted = steps_of(tmp_path)
    assert set(counted["samples"]) == {BATCH}
    assert min(shares_seen(counted, ("data", *PARTS)).values()) > 0.95
    late = steps[steps["warmup"] & (steps["step"] >= WARMUP)]
    assert late.groupby("rank").size().tolist() == [1, 1]


def test_a_loop_that_is_not_compiled(tmp_path):
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--", "--eager")
    ended = run(tmp_path, TAPE, *options)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, steps = steps_of(tmp_path)
    assert set(steps["samples"]) == {BATCH}
    seen = shares_seen(steps, ("data", "backward", "blocked", "optimizer"))
    assert min(seen.values()) > 0.95


def test_steps_before_a_failure_count(tmp_path):
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--")
    ended = run(tmp_path, TAPE, *options, "--epochs=9", "--fail-at=60")

    assert ended.returncode == 6
    assert "rank 1 raised RuntimeError: on purpose" in " ".join(ended.stdout.split())
    first = " ".join(ended.stdout.splitlines()[:3])
    assert first.startswith("Failed at np=2: ")
    assert "samples/s" in " ".join(first.split())


def test_a_rank_that_others_wait_for_within_a_compiled_step_is_named(tmp_path):
    # A rank may wait for seconds until the other one has imported and compiled.
    limits = ("--stall-warn", "15", "--stall-kill", "30", "--controller", "gloo", "--no-trace")
    ended = run(tmp_path, TAPE, "-np", "2", *limits, "--", "--hang-at=20")

    assert ended.returncode == 6
    stalls = next((tmp_path / "run").glob("passes/*/stalls.jsonl")).read_text().splitlines()
    stall = json.loads(stalls[0])
    assert stall["waiting"] == [0]
    assert [late["rank"] for late in stall["late"]] == [1]
    assert any("main" in line for line in stall["late"][0]["stack"])


@pytest.mark.ran(
    "`hvdprof run --launcher tf` of a script of MultiWorkerMirroredStrategy",
    "TensorFlow 2.21.0, tf_keras 2.21.0",
    "one host, 1 and 2 workers",
)
def test_workers_of_a_strategy_have_step_times(tmp_path):
    # With Keras 3 `fit` fails with several workers, hvdprof or not.
    options = ("--launcher", "tf", "--np", "1,2")
    ended = run(tmp_path, STRATEGY, *options, TF_USE_LEGACY_KERAS="1")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "recorder:" not in ended.stderr
    manifest = Manifest.read(tmp_path / "run")
    assert {record.engine for record in manifest.passes} == {"tf-multiworker"}
    assert [record.mode for record in manifest.passes] == ["throughput"] * 2
    steps, counted = steps_of(tmp_path)
    assert steps.groupby("pass_id", observed=True).size().tolist() == [64, 128]
    of_two = counted[counted["pass_id"].astype(str).str.contains("np2")]
    assert set(of_two["samples"]) == {BATCH}
    # Nothing is seen of what a strategy waits for.
    assert of_two["blocked_ns"].isna().all()


@pytest.mark.ran(
    "`hvdprof bench --engine tf-multiworker,tf-mirrored,tf-central-storage`",
    "TensorFlow 2.21.0, tf_keras 2.21.0",
    "one host, 1 and 2 ranks",
)
def test_the_bench_trains_twins_under_strategies(tmp_path):
    command = [sys.executable, "-m", "hvdprof", "bench", "-q", "-o", "run", "--models", "mnist"]
    options = ["--preset", "quick", "--np", "1,2", "--repeats", "1", "--num-steps", "20"]
    engines = ("tf-multiworker", "tf-mirrored", "tf-central-storage")
    ended = subprocess.run(
        [*command, *options, "--engine", ",".join(engines)],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "MultiWorkerMirroredStrategy" in ended.stdout
    analysis = analyze_run(load_run(tmp_path / "run"))
    scaling = analysis.table("scaling")
    assert set(scaling["model"]) == {"keras-mnist"}
    assert set(zip(scaling["engine"], scaling["np"], strict=True)) == {
        (engine, size) for engine in engines for size in (1, 2)
    }
    assert set(scaling["baseline"]) == {"tf-multiworker np=1"}
    said = [text for text in analysis.warnings if "strategy of tf.distribute" in text]
    assert len(said) == 1
    assert "3 measurements" in said[0]
    steps, _ = steps_of(tmp_path)
    # The replicas of a strategy of one process are recorded once.
    by_pass = steps.groupby("pass_id", observed=True)["rank"].nunique()
    assert sorted(by_pass) == [1, 1, 1, 1, 1, 2]


def of_parameter_server(size: str) -> list[str]:
    options = ("--np", size, "--repeats", "1", "--num-steps", "20", "--preset", "quick")
    command = [sys.executable, "-m", "hvdprof", "bench", "-q", "-o", "run", "--models", "mnist"]
    return [*command, *options, "--engine", "tf-parameter-server"]


def processes_that_name(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # One that ends while it is read is gone, too.
        with contextlib.suppress(OSError):
            text = path.read_text(errors="replace").replace("\0", " ")
            found += [text] if str(folder) in text else []
    return found


@pytest.mark.ran(
    "`hvdprof bench --engine tf-parameter-server`",
    "TensorFlow 2.21.0, tf_keras 2.21.0",
    "one host, 1 and 2 workers with their coordinator and parameter server",
)
def test_the_bench_trains_twins_with_a_parameter_server(tmp_path):
    ended = subprocess.run(
        of_parameter_server("1,2"),
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "recorder:" not in ended.stderr
    analysis = analyze_run(load_run(tmp_path / "run"))
    scaling = analysis.table("scaling")
    assert set(zip(scaling["engine"], scaling["np"], strict=True)) == {
        ("tf-parameter-server", size) for size in (1, 2)
    }
    steps, counted = steps_of(tmp_path)
    assert steps["blocked_ns"].isna().all()
    # The coordinator records for all.
    assert set(steps["rank"]) == {0}
    assert counted.groupby("pass_id", observed=True).size().tolist() == [20, 20]
    (printed,) = (path.read_text() for path in (tmp_path / "run").glob("passes/*np2*/stdout.txt"))
    each = [int(number) for number in re.findall(r"(\d+) steps of ", printed)]
    assert (len(each), sum(each)) == (2, 2 * 20)
    assert not processes_that_name(tmp_path)


def test_no_process_of_a_parameter_server_is_left_by_ctrl_c(tmp_path):
    command = of_parameter_server("2")
    command[command.index("--num-steps") + 1] = "100000"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes) as started:
        wait_for(lambda: list((tmp_path / "run").glob("passes/*/recorder/rank-0.jsonl")), 300)
        assert len(processes_that_name(tmp_path)) >= 4
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=120)

    assert started.returncode == 130
    assert not processes_that_name(tmp_path)


@pytest.mark.parametrize("name", ["mnist", "resnet18"])
def test_twins_have_the_parameters_of_their_models(name):
    keras = importlib.import_module("keras")
    model = model_named(name)
    twin = keras_twin(keras, model, model.image_size)

    trained = sum(math.prod(weight.shape) for weight in twin.trainable_weights)
    assert trained == model.num_parameters
    assert twin.output_shape == (None, model.num_classes)


def test_what_keras_3_cannot_do_is_said(tmp_path):
    ended = run(tmp_path, STRATEGY, "--launcher", "tf", "-np", "2")

    assert ended.returncode == 6
    assert "fit() of Keras 3 does not train with several workers" in " ".join(ended.stdout.split())


@pytest.mark.ran(
    "a tutorial's Keras script, as it is",
    "TensorFlow 2.21.0, tf_keras 2.21.0",
    "one host, 2 ranks, where the tutorials are",
)
@needs_tutorials
def test_the_keras_script_of_a_tutorial_unmodified(tmp_path):
    (tmp_path / "train.py").write_text(keras_tutorial.script())
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(keras_tutorial.DIGITS)
    for rank in range(2):
        keras_tutorial.write_digits(tmp_path, rank=rank, number=2000)
    options = ("-np", "2", "--no-trace", "--controller", "gloo", "--num-steps", "20")
    # It compiles its model with an argument that Keras 3 does not take.
    environment = {"PYTHONPATH": str(tmp_path / "hook"), "TF_USE_LEGACY_KERAS": "1"}
    ended = run(tmp_path, "train.py", *options, **environment)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    _, steps = steps_of(tmp_path)
    assert steps.groupby("rank").size().tolist() == [20, 20]
    # The last batch of each turn through the 2000 images has what is left of them.
    assert set(steps["samples"]) <= {128, 2000 % 128}
    assert min(shares_seen(steps, ("data", *PARTS)).values()) > 0.95
