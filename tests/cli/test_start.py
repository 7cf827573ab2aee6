"""How the command starts: with folders of its own names in the way, and what it imports."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import ROOT
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

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


def quick_run(folder: Path) -> Path:
    """Two rank counts with three repeats each, so that there are intervals and findings."""
    return write_run(
        folder,
        [
            PassSpec(
                size=size,
                repeat=repeat,
                segments=[SegmentSpec(parts_ms=typical_parts(20 + 4 * size))],
            )
            for size in (1, 2)
            for repeat in (1, 2, 3)
        ],
    )


def packages_of(*arguments: str) -> set[str]:
    """The packages that a command imports."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*{name.split('.')[0] for name in sys.modules}))\n"
        "from hvdprof.cli.main import main\n"
        f"sys.argv = ['hvdprof', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.splitlines()[-1].split())


def test_version_and_help_import_no_tables_and_version_no_command() -> None:
    assert not {"numpy", "pandas", "torch"} & packages_of("--help")
    assert not {"numpy", "pandas", "rich", "hvdprof.api"} & packages_of("--version")


def test_analysis_of_a_run_imports_nothing_of_other_outputs(tmp_path: Path) -> None:
    packages = packages_of("analyze", str(quick_run(tmp_path / "run")))

    assert "pandas" in packages
    # scipy.special brings f2py and its detection of encodings: a tenth of the whole command.
    strangers = {"scipy", "plotly", "jinja2", "dash", "numba", "torch", "charset_normalizer"}
    assert not strangers & packages


def processor_seconds(*arguments: str) -> float:
    """The least of three starts: other work of the machine adds to it."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(3))


@pytest.mark.timing
def test_start_takes_no_more_processor_time_than_importing_pandas(tmp_path: Path) -> None:
    run = quick_run(tmp_path / "run")
    unit = processor_seconds("-c", "import pandas")

    # Measured: 0.13, 0.57 and 2.6 of 0.36 s.
    assert processor_seconds("-m", "hvdprof", "--version") < 0.5 * unit
    assert processor_seconds("-m", "hvdprof", "--help") < unit
    assert processor_seconds("-m", "hvdprof", "analyze", str(run)) < 4 * unit
