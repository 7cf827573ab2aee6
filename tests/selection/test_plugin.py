import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.inner_pytest import NO_OTHERS, PLUGINS
from tests.builders.places import ROOT
from tests.selection.plugin import write_selection
from tests.selection.selected_tests import Selection

pytestmark = pytest.mark.slow

MIXED = (
    "import os\nimport pytest\n\n"
    "@pytest.mark.horovod\ndef test_ranks(): ...\n\n"
    "def test_table(): assert 'PYTEST_ADDOPTS' not in os.environ\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = horovod\n")
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(MIXED)
    (tmp_path / "test_c.py").write_text("raise ImportError\n")
    return tmp_path


def run(
    folder: Path, tests: set[str], real: set[str], *arguments: str
) -> "subprocess.CompletedProcess[str]":
    write_selection(Selection(frozenset(tests), frozenset(real)), folder / "build" / "chosen.json")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *PLUGINS, *arguments],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            **NO_OTHERS,
            "PYTEST_ADDOPTS": "-p tests.selection.plugin --selection build/chosen.json",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_only_selected_tests_run(folder: Path, workers: tuple[str, ...]) -> None:
    done = run(folder, {"test_a.py"}, {"test_b.py"}, *workers)
    assert done.returncode == 0, done.stdout
    assert "test_a.py::test_table" in done.stdout
    assert "test_b.py::test_ranks" in done.stdout
    assert " 2 passed" in done.stdout


def test_a_part_without_a_selected_test_has_not_failed(folder: Path) -> None:
    done = run(folder, {"test_a.py"}, set(), "-m", "horovod")
    assert done.returncode == 0, done.stdout
    assert "no tests" in done.stdout or "2 deselected" in done.stdout
    assert run(folder, set(), set(), "-n", "1").returncode == 0


def test_a_selected_test_that_fails_fails_the_part(folder: Path) -> None:
    assert run(folder, {"test_c.py"}, set()).returncode == pytest.ExitCode.INTERRUPTED
