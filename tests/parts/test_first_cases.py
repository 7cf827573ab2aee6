"""The plugin, in a pytest of its own that measures a module whose lines are cases and threads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.inner_pytest import NO_OTHERS, PLUGINS
from tests.builders.places import ROOT

pytestmark = pytest.mark.slow

NAMES = ("first", "second", "third", "fixture", "other_thread", "after")

MEASURED = "\n".join(f"def {name}():\n    return 1\n" for name in NAMES)

TESTS = """
import threading
import pytest
import measured

@pytest.fixture
def made(request):
    if request.node.name == "test_cases[third]":
        measured.fixture()

@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_cases(name, made):
    getattr(measured, name)()
    assert name != "third", "a case that is not traced fails"

def test_after():
    thread = threading.Thread(target=measured.other_thread)
    thread.start()
    thread.join()
    measured.after()
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "worksteal")])
def test_only_the_first_cases_are_measured_and_all_of_what_follows(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    tmp_path.joinpath("measured.py").write_text(MEASURED)
    tmp_path.joinpath("test_measured.py").write_text(TESTS)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    options = (*PLUGINS, "-p", "pytest_cov", "-p", "tests.parts.first_cases", "-W", "error")
    options += ("--cov=measured", "--cov-report=json:lines.json", f"--basetemp={tmp_path / 'own'}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *workers],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tmp_path}:{ROOT}", **NO_OTHERS},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "arning" not in done.stdout + done.stderr
    lines = json.loads(tmp_path.joinpath("lines.json").read_text())["files"]["measured.py"]
    functions = {name: found["missing_lines"] for name, found in lines["functions"].items()}
    unmeasured = {name for name, missing in functions.items() if missing}
    assert unmeasured == {"third", "fixture"}
