"""How the command starts: with folders of its own names in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("bench", "--np", "1", "--models", "mnist", "--help"),
        ("dashboard", "--help"),
        ("history", "{empty}"),
    ],
)
def test_empty_folders_of_the_same_names_are_not_in_the_way(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    for name in ("bench_models", "dashboards"):
        (tmp_path / name).mkdir()
    command = [word.format(empty=tmp_path / "none") for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "hvdprof", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == (3 if arguments[0] == "history" else 0), done.stderr


def test_models_and_dashboard_are_imported_from_the_package(tmp_path: Path) -> None:
    for name in ("bench_models", "dashboards"):
        (tmp_path / name).mkdir()
    script = (
        "import hvdprof.bench_models.registry, hvdprof.dashboards\n"
        "print(len(hvdprof.bench_models.registry.MODELS) > 0, hvdprof.dashboards.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=True,
    )
    known, place = done.stdout.split()
    assert known == "True"
    assert Path(place).is_relative_to(ROOT)
