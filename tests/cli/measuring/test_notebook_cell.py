"""The magic without a notebook: what it starts, and what it returns."""

import subprocess
import sys
from pathlib import Path

import pytest

import hvdprof
from hvdprof.cli.measuring import notebook_cell
from hvdprof.cli.measuring.notebook_cell import measure_cell
from hvdprof.errors import UsageError
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

SCRIPT = "print('train')\n"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The words of the commands that are started; each makes a run directory."""
    monkeypatch.chdir(tmp_path)
    found = []

    def run(words):
        found.append(words)
        parts = typical_parts(10.0, 1.0)
        passes = [PassSpec(size=2, segments=[SegmentSpec(parts_ms=parts)])]
        write_run(Path(words[words.index("--output") + 1]), passes)

    monkeypatch.setattr(notebook_cell, "_run", run)
    return found


def test_load_ext_registers_the_magic_of_a_cell():
    class Shell:
        def register_magic_function(self, func, magic_kind, magic_name):
            self.found = (func, magic_kind, magic_name)

    shell = Shell()
    hvdprof.load_ipython_extension(shell)
    assert shell.found == (measure_cell, "cell", "hvdprof")


@pytest.mark.heavy
def test_a_cell_is_a_script_beside_its_run_and_its_analysis_is_returned(started):
    analysis = measure_cell("run --np 2 --output runs/mine", SCRIPT)
    assert started == [
        ["run", "--np", "2", "--output", "runs/mine", "--", "python", "runs/mine.py"]
    ]
    assert Path("runs/mine.py").read_text() == SCRIPT
    assert analysis.run.shown_name == "mine"


@pytest.mark.heavy
def test_a_cell_without_a_folder_gets_one_in_runs(started):
    analysis = measure_cell("run --np 2", SCRIPT)
    assert analysis.run.shown_name.endswith("-cell")
    assert Path("runs", f"{analysis.run.shown_name}.py").is_file()


@pytest.mark.parametrize("line", ["", "bench --np 2", "run --np 2 -- python train.py"])
def test_another_line_is_refused_with_an_example(line, started):
    with pytest.raises(UsageError) as caught:
        measure_cell(line, SCRIPT)
    assert caught.value.hint == "%%hvdprof run --np 2"
    assert started == []


@pytest.mark.slow
def test_a_command_that_fails_says_why_and_returns_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert measure_cell("run --np none", SCRIPT) is None
    assert "none" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interruption_is_one_of_the_measurement(monkeypatch, capsys):
    code = (
        "import sys, time\n"
        "try:\n    print('started', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('stopped', file=sys.stderr)\n"
    )
    real, showing = subprocess.Popen, notebook_cell._show_errors

    def popen(words, **options):
        return real([sys.executable, "-c", code], **options)

    def interrupted(process):
        # The script runs: what a notebook does to its kernel.
        assert process.stderr.readline() == "started\n"
        raise KeyboardInterrupt

    calls = iter((interrupted, showing))
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(notebook_cell, "_show_errors", lambda process: next(calls)(process))
    notebook_cell._run(["run"])
    assert "stopped" in capsys.readouterr().err
