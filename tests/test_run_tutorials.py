"""`hvdprof run` on the MNIST scripts of public tutorials that were not written for it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof.api import load_run
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders import tutorial
from tests.builders.places import ROOT, needs_tutorials
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600), needs_tutorials]

WARMUP = 5


@pytest.fixture(scope="module")
def torchvision(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("torchvision")
    tutorial.install_torchvision(folder)
    return folder


def _write_digits(folder: Path, num_train: int) -> None:
    for rank in range(2):
        tutorial.write_digits(folder / f"data-{rank}", num_train=num_train, num_test=300)


def run(folder: Path, torchvision: Path, controller: str, *command: str) -> Path:
    own = ["-q", "-o", "run", "-np", "2", "--no-trace", "--controller", controller]
    own += ["--num-warmup-batches", str(WARMUP)]
    ended = hvdprof(
        *("run", *own, "--", "python", *command), cwd=folder, PYTHONPATH=_path(torchvision)
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert Manifest.read(folder / "run").status == Status.DONE
    return folder / "run"


def _path(torchvision: Path) -> str:
    folders = (str(torchvision), str(ROOT), os.environ.get("PYTHONPATH", ""))
    return os.pathsep.join(filter(None, folders))


@pytest.mark.ran(
    "`hvdprof run` of Horovod's `pytorch_mnist.py`, as it is",
    "Gloo with fp16, Open MPI with Adasum; torchvision 0.28.0",
    "one host, 2 ranks, where the tutorials are",
)
@pytest.mark.warm
@pytest.mark.parametrize(
    ("controller", "option"), [("gloo", "--fp16-allreduce"), ("mpi", "--use-adasum")]
)
def test_horovods_own_mnist_script(tmp_path, torchvision, controller, option):
    (tmp_path / "pytorch_mnist.py").write_text(tutorial.script())
    _write_digits(tmp_path, 1000)
    options = ("--epochs", "2", "--batch-size", "20", option)
    read = load_run(run(tmp_path, torchvision, controller, "pytorch_mnist.py", *options))

    steps = read.steps
    # 1000 images, 2 ranks, 20 a batch, 2 epochs; a test follows each epoch.
    assert steps.groupby("rank").size().tolist() == [50, 50]
    late = steps[steps["warmup"] & (steps["step"] >= WARMUP)]
    assert set(late["step"]) == {25}
    assert set(steps["samples"]) == {20}
    counted = steps[~steps["warmup"]]
    for part in ("data", "forward", "backward", "blocked"):
        assert (counted[f"{part}_ns"] > 0).mean() > 0.9, part
    printed = next((tmp_path / "run").glob("passes/*/stdout.txt")).read_text()
    assert printed.count("Test set: Average loss") == 2


@pytest.mark.ran(
    "a tutorial's function for `HorovodRunner`, as it is",
    "Gloo; torchvision 0.28.0",
    "one host, 2 ranks, where the tutorials are",
)
@pytest.mark.warm
def test_the_function_of_a_horovod_runner(tmp_path, torchvision):
    (tmp_path / "runner.py").write_text(tutorial.runner_script(tmp_path / "checkpoints"))
    _write_digits(tmp_path, 400)
    read = load_run(run(tmp_path, torchvision, "gloo", "runner.py"))

    # 400 images, 2 ranks, 100 a batch, 5 epochs, each with a checkpoint of rank 0.
    assert read.steps.groupby("rank").size().tolist() == [10, 10]
    assert set(read.steps["samples"]) == {100}
    assert len(list((tmp_path / "checkpoints").glob("*/MNISTDemo/checkpoint-*"))) == 5


@pytest.mark.ran(
    "a tutorial's notebook with `HorovodRunner`, as it is",
    "pyspark 4.3.0, Java 17",
    "`local[2]`, where the tutorials are",
)
@pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None or shutil.which("java") is None,
    reason="pyspark or Java is not installed",
)
def test_the_notebook_of_a_horovod_runner_on_spark(tmp_path, torchvision):
    _write_digits(tmp_path, 400)
    (tmp_path / "notebook.py").write_text(tutorial.runner_notebook(tmp_path / "checkpoints"))
    ended = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": _path(torchvision)},
        capture_output=True,
        text=True,
        timeout=500,
    )

    assert ended.returncode == 0, ended.stderr[-5000:]
    (folder,) = (tmp_path / "runs").iterdir()
    steps = load_run(folder).steps
    assert steps.groupby("rank").size().tolist() == [10, 10]
    assert set(steps["samples"]) == {100}
    assert len(list((tmp_path / "checkpoints").glob("*/MNISTDemo/checkpoint-*"))) == 5
