"""How the command starts: with folders of its own names in the way, and what it imports."""

import os
import resource
import subprocess
import sys
import tomllib
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


def modules_of(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        "from hvdprof.cli.main import main\n"
        f"sys.argv = ['hvdprof', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.splitlines()[-1].split())


def test_version_and_help_import_no_tables_and_version_no_command() -> None:
    assert not {"numpy", "pandas", "hvdprof.api", "hvdprof.cli.measure"} & modules_of("--help")
    assert not {"numpy", "pandas", "hvdprof.collect.recorder"} & modules_of("bench", "--help")
    assert not {"numpy", "pandas", "pydantic"} & modules_of("analyze", "--help")
    assert not {"numpy", "pandas", "rich", "hvdprof.api"} & modules_of("--version")


def test_analysis_of_a_run_imports_nothing_of_other_outputs(tmp_path: Path) -> None:
    modules = modules_of("analyze", str(quick_run(tmp_path / "run")))

    assert "hvdprof.ingest.recorder.recorder_lines" in modules
    # The readers and pages of files that other tools wrote: a fifth of the whole command.
    assert not {"hvdprof.ingest.logs.printed_file", "hvdprof.analyze.files.file_analysis"} & modules
    packages = {name.split(".")[0] for name in modules}
    # scipy.special brings f2py and its detection of encodings: a tenth of the whole command.
    strangers = {"scipy", "plotly", "jinja2", "dash", "numba", "torch", "charset_normalizer"}
    # typer converts values with pydantic, and here nothing needs that.
    assert not (strangers | {"pydantic"}) & packages
    # Kept tables and compiled code are for larger files, and other results for other commands.
    unused = {"pyarrow.parquet", "hvdprof.ingest.timeline.compiled", "hvdprof.model.results.tuning"}
    assert not unused & modules


def processor_seconds(*arguments: str) -> float:
    """The least of three starts: other work of the machine adds to it."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(3))


def test_start_takes_no_more_processor_time_than_importing_pandas(tmp_path: Path) -> None:
    run = quick_run(tmp_path / "run")
    unit = processor_seconds("-c", "import pandas")

    # Measured: 0.13, 0.35 and 3.0 of 0.41 s.
    assert processor_seconds("-m", "hvdprof", "--version") < 0.5 * unit
    assert processor_seconds("-m", "hvdprof", "--help") < 0.8 * unit
    assert processor_seconds("-m", "hvdprof", "analyze", str(run)) < 4 * unit


def ended(shell: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a shell, in which `hvdprof` is this one."""
    (folder / "t.csv").write_text("np,samples/s\n1,100\n2,190\n")
    script = f'hvdprof() {{ "{sys.executable}" -m hvdprof "$@"; }}\n{shell}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", ["analyze t.csv", "--version", "convert --help"])
@pytest.mark.parametrize(
    ("output", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
def test_output_that_cannot_be_written_is_one_message(
    tmp_path: Path, command: str, output: str, reason: str
) -> None:
    done = ended(f"hvdprof {command} {output}", tmp_path)
    assert done.returncode == 7
    assert done.stderr == (
        f"hvdprof: Standard output could not be written: {reason}.\n"
        "  Send it elsewhere; commands with a result also take --output FILE.\n"
    )


def test_a_closed_stream_takes_no_file_of_the_command(tmp_path: Path) -> None:
    done = ended("hvdprof convert t.csv -o out --format csv >&- 2>&- <&-", tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "out" / "throughput.csv").read_text().startswith("file,")


@pytest.mark.parametrize(
    "command",
    ["analyze nowhere", "analyze --bogus", "convert t.csv -o out --format csv", "analyze t.csv"],
)
@pytest.mark.parametrize("messages", ["2>/dev/full", "2> >(:)", "2>&-"])
def test_messages_that_cannot_be_written_change_no_result(
    tmp_path: Path, command: str, messages: str
) -> None:
    whole = ended(f"hvdprof {command}", tmp_path)
    table = tmp_path / "out" / "throughput.csv"
    written = table.read_text() if table.exists() else ""
    done = ended(f"rm -rf out; hvdprof {command} {messages}", tmp_path)
    assert (done.returncode, done.stdout) == (whole.returncode, whole.stdout)
    assert written == (table.read_text() if table.exists() else "")


def test_a_reader_that_goes_ends_a_command_without_a_message(tmp_path: Path) -> None:
    done = ended("hvdprof analyze --help | head -c 1 >/dev/null", tmp_path)
    assert done.stderr == ""


@pytest.mark.parametrize("messages", ["", "2>/dev/full", "2>&-"])
@pytest.mark.parametrize(
    "module", ["typer", "hvdprof.cli.terminal_stream", "hvdprof.cli.analyze", "hvdprof.ingest.load"]
)
def test_ctrl_c_at_any_moment_is_one_line(tmp_path: Path, module: str, messages: str) -> None:
    script = (
        "import signal, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Interrupting(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['hvdprof', 'analyze', 'nowhere']\n"
        "from hvdprof.__main__ import main\n"
        "main()\n"
    )
    (tmp_path / "interrupted.py").write_text(script)
    done = ended(f'"{sys.executable}" interrupted.py {messages}', tmp_path)
    assert done.returncode == 130
    assert done.stderr == ("" if messages else "hvdprof: Interrupted.\n")


def test_the_installed_command_starts_where_ctrl_c_is_caught() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["hvdprof"] == "hvdprof.__main__:main"
