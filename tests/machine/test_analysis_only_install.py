"""What somebody gets who installs hvdprof without extras, on a laptop, to read a run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import ROOT

CONTENT = ("pyproject.toml", "README.md", "LICENSE", "hvdprof", "dashboards", "bench_models")

pytestmark = pytest.mark.install


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with hvdprof and nothing it does not need."""
    folder = tmp_path_factory.mktemp("analysis-only")
    source = folder / "source"
    source.mkdir()
    for name in CONTENT:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(source)], check=True)
    return folder / "venv/bin"


def run(commands: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH could lend it what it does not have itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(commands / "hvdprof"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=commands
    )


def test_help_lists_every_command(commands: Path) -> None:
    answer = run(commands, "--help")
    assert answer.returncode == 0, answer.stderr
    assert "doctor" in answer.stdout
    assert "analyze" in answer.stdout


def test_doctor_names_the_extra(commands: Path) -> None:
    answer = run(commands, "doctor", "--json")
    assert answer.returncode == 5, answer.stderr
    record = json.loads(answer.stdout)
    torch = next(finding for finding in record["findings"] if finding["name"] == "torch")
    assert torch["state"] == "missing"
    assert "hvdprof[bench]" in torch["fix"]


def test_building_horovod_names_the_extra(commands: Path) -> None:
    answer = run(commands, "install-horovod")
    assert answer.returncode == 4
    assert "hvdprof[bench]" in answer.stderr


def test_the_toolchain_file_is_packed(commands: Path) -> None:
    packed = list(
        (commands.parent / "lib").glob("python*/site-packages/hvdprof/machine/install/*.cmake")
    )
    assert len(packed) == 1
