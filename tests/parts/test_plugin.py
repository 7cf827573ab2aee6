"""The plugin and the summary, as ``make test`` runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.inner_pytest import NO_OTHERS, PLUGINS
from tests.builders.places import ROOT

pytestmark = pytest.mark.slow

TESTS = """
import os, signal
import pytest

def test_passes(): pass
def test_fails(): assert [*range(40)] == 1, "\\n".join(map(str, range(40)))

@pytest.fixture
def broken(): raise OSError("no disk")
def test_needs_it(broken): pass

@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.flaky(reruns=1)
def test_second(tmp_path_factory):
    marker = tmp_path_factory.getbasetemp().parent / "tried"
    if not marker.exists():
        marker.touch()
        raise AssertionError
"""


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **NO_OTHERS},
        capture_output=True,
        text=True,
        timeout=120,
    )


def run_part(folder: Path, name: str, *arguments: str) -> int:
    # Folders of tests lie in the one of this test: the marker is no other run's.
    options = (*PLUGINS, "-p", "tests.parts.plugin", "--part", name)
    return python(
        folder, "pytest", *options, f"--basetemp={folder / name / 'tests'}", *arguments
    ).returncode


def summary(folder: Path, *parts: str) -> list[str]:
    done = python(folder, "tests.parts", *parts)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_of_part.py").write_text(TESTS)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_failures_are_printed_once_more(folder: Path, workers: tuple[str, ...]) -> None:
    assert run_part(folder, "first", *workers) == pytest.ExitCode.TESTS_FAILED
    assert run_part(folder, "second", "-k", "passes", *workers) == 0
    lines = summary(folder, "first", "second")
    printed = lines[lines.index("FAILED test_of_part.py::test_fails (part first)") + 1 :]
    assert printed.index("") == 15, "the last lines of its error, and no more"
    assert "FAILED test_of_part.py::test_needs_it (part first, setup)" in lines
    assert "    E       OSError: no disk" in lines or "    E   OSError: no disk" in lines
    assert lines[-3] == "Parts of make test:"
    counts = "2 failed, 2 passed, 1 skipped, 1 tried again"
    assert lines[-2].startswith("  first ")
    assert lines[-2].endswith(f" s: {counts}")
    assert lines[-1].startswith("  second ")
    assert lines[-1].endswith(" s: 1 passed")


def test_parts_that_passed_take_a_line_each(folder: Path) -> None:
    assert run_part(folder, "first", "-k", "passes") == 0
    lines = summary(folder, "first")
    assert lines[:2] == ["", "Parts of make test:"]
    assert len(lines) == 3


def test_a_file_that_cannot_be_imported_is_named(folder: Path) -> None:
    (folder / "test_other.py").write_text("import no_such_module\n")
    assert run_part(folder, "first") == pytest.ExitCode.INTERRUPTED
    lines = summary(folder, "first")
    assert "FAILED test_other.py (part first, collect)" in lines
    assert "    E   ModuleNotFoundError: No module named 'no_such_module'" in lines


def test_what_no_test_explains_is_said(folder: Path) -> None:
    """A part without tests, one that was killed, and one whose options pytest refuses."""
    assert run_part(folder, "first", "-k", "nothing") == pytest.ExitCode.NO_TESTS_COLLECTED
    (folder / "test_of_part.py").write_text(
        "import os\ndef test_fails(): raise OSError\ndef test_kills(): os.abort()\n"
    )
    assert run_part(folder, "second") < 0
    assert run_part(folder, "third", "--no-such-option") == pytest.ExitCode.USAGE_ERROR
    *failed, first, second, third = summary(folder, "first", "second", "third")
    assert "FAILED test_of_part.py::test_fails (part second)" in failed
    assert "no test; exit code 5 without a failed test: see its own output" in first
    assert second == "  second did not end: it was killed, or pytest itself failed"
    assert third == "  third  did not start: its own output, above, says why"
