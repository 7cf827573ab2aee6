"""What processes of tests leave out at their start changes nothing but their processor time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import LEAN_START, ROOT

RANK = """
import sys
import torch
began_without = not hasattr(sys.modules["torch._meta_registrations"], "register_meta")
torch.Generator().manual_seed(0)
import {module}
torch.Generator().manual_seed(0)
print(began_without, hasattr(sys.modules["torch._meta_registrations"], "register_meta"))
print(*torch.linalg.lu_factor(torch.empty(4, 4, device="meta"))[0].shape)
"""

UTIL = """
asked = 0
def _check_extension_lambda(extension, fn, feature, verbose):
    global asked
    asked += 1
    return fn(extension)
def gloo_built():
    return _check_extension_lambda("torch", lambda extension: extension == "torch", "Gloo", False)
"""


SPARK = ("pyspark.daemon", "pyspark.worker")


def printed(*command: str, path: Path, state: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(LEAN_START), str(path)]),
            "XDG_STATE_HOME": str(state),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.torch
@pytest.mark.parametrize("module", ["torch._dynamo", "torch.distributed.tensor"])
def test_what_asks_for_operators_without_data_gets_them(module: str, tmp_path: Path) -> None:
    lines = printed("-c", RANK.format(module=module), path=ROOT, state=tmp_path)
    assert lines == ["True True", "4 4"]


def test_horovodrun_asks_once_what_an_extension_was_built_with(tmp_path: Path) -> None:
    package = tmp_path / "horovod" / "common"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "util.py").write_text(UTIL)
    command = tmp_path / "horovodrun"
    command.write_text("from horovod.common import util\nprint(util.gloo_built(), util.asked)\n")
    state = tmp_path / "state"
    assert printed(str(command), path=tmp_path, state=state) == ["True 1"]
    assert printed(str(command), path=tmp_path, state=state) == ["True 0"]
    (answer,) = state.iterdir()
    assert json.loads(answer.read_text()) is True


def test_the_process_that_spark_forks_has_horovod_for_spark(tmp_path: Path) -> None:
    for package in ("horovod", "horovod/spark", "pyspark"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    text = "import sys\nprint(sys.argv[1], 'horovod.spark' in sys.modules)\n"
    for module in ("daemon", "worker"):
        (tmp_path / "pyspark" / f"{module}.py").write_text(text)
    ran = [printed("-m", name, "x", path=tmp_path, state=tmp_path) for name in SPARK]
    assert ran == [["x True"], ["x False"]]
