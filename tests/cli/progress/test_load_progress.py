import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from hvdprof.cli.progress import load_progress as module
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.ingest.timeline import horovod_timeline as read
from tests.builders.refusing_numba import refuse_loops
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.cli.test_convert import invoke
from tests.ingest.test_load_files import MIXED, TIMELINE

HINT = "pip install 'hvdprof[fast]'"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SLOW_BYTES", 10)
    monkeypatch.setattr(read, "has_numba", lambda: False)


@pytest.fixture
def timelines(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("a.json", "b.json"):
        (folder / name).write_text(TIMELINE)
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(
    "arguments",
    [("analyze",), ("convert", "-o", "out"), ("sql", "SELECT 1")],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.usefixtures("slow")
def test_a_large_timeline_without_compiled_code_gives_one_hint(
    timelines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    stderr = invoke(command, timelines, *rest).stderr
    assert stderr.count(HINT) == 1
    assert f"{timelines / 'a.json'} has " in stderr


@pytest.mark.heavy
def test_a_numba_that_refuses_to_compile_gives_one_note_and_no_error(
    timelines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="a loop is compiled")

    expected = invoke("analyze", timelines, "--format", "json")
    refuse_loops(monkeypatch, tmp_path / "code")
    monkeypatch.setattr(read, "SMALL_BYTES", 10)

    shown = invoke("analyze", timelines, "--format", "json")

    assert (shown.exit_code, shown.stdout) == (0, expected.stdout)
    assert shown.stderr.count("Compiled code is not used: numba ") == 1
    assert "refuses parse (KeyError: " in shown.stderr


@pytest.mark.heavy
@pytest.mark.usefixtures("slow")
def test_a_run_directory_gives_the_hint_too(tmp_path: Path) -> None:
    segment = SegmentSpec(timeline=True)
    folder = write_run(tmp_path / "run", [PassSpec(size=2, mode="trace", segments=[segment])])
    assert invoke("analyze", folder).stderr.count(HINT) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("standalone", [True, False], ids=["file", "run"])
def test_cached_tables_give_no_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standalone: bool
) -> None:
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", 0)
    if standalone:
        path = tmp_path / "a.json"
        path.write_text(TIMELINE)
    else:
        segment = SegmentSpec(timeline=True)
        path = write_run(tmp_path / "run", [PassSpec(size=2, mode="trace", segments=[segment])])
    assert invoke("analyze", path).stderr.count(HINT) == 1
    assert invoke("analyze", path).stderr == ""


@pytest.mark.heavy
@pytest.mark.usefixtures("slow")
def test_an_export_gives_the_hint_too(tmp_path: Path) -> None:
    segment = SegmentSpec(timeline=True)
    folder = write_run(tmp_path / "run", [PassSpec(size=2, mode="trace", segments=[segment])])
    assert invoke("export", folder, "-o", tmp_path / "trace.json").stderr.count(HINT) == 1


def test_the_bar_names_the_files_of_a_folder_by_their_names_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "_DELAY_S", -1.0)
    with load_progress([tmp_path]) as update:
        update(str(tmp_path / "ranks" / "one.log"), 0, 100)
        update(str(tmp_path / "ranks" / "one.log"), 60, 100)
    assert "Reading ranks/one.log" in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["analyze", "convert", "export"])
def test_a_run_directory_that_takes_long_shows_the_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    folder = write_run(tmp_path / "run", [PassSpec(), PassSpec(size=2)])
    stream = Terminal()
    monkeypatch.setattr(module, "_DELAY_S", -1.0)
    # typer's runner replaces standard error, so the bar gets a terminal of its own.
    monkeypatch.setattr(module, "Console", lambda **_: Console(file=stream, force_terminal=True))
    monkeypatch.setattr(module, "_on_terminal", lambda: True)
    rest = {"convert": ["-o", tmp_path / "out"], "export": ["-o", tmp_path / "t.json"]}
    if command == "export":
        folder = write_run(tmp_path / "traced", [PassSpec(mode="trace")])
    invoke(command, folder, *rest.get(command, []))
    assert "Reading passes/" in stream.getvalue()


@pytest.mark.heavy
@pytest.mark.usefixtures("slow")
def test_other_files_give_no_hint(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(MIXED)
    assert invoke("analyze", tmp_path / "job.out").stderr == ""


@pytest.mark.heavy
def test_fast_reading_gives_no_hint(timelines: Path) -> None:
    assert invoke("analyze", timelines).stderr == ""


def test_the_bar_stands_on_a_terminal_after_a_while_and_goes_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with load_progress([tmp_path]) as update:
        update("big.log", 10, 100)
        assert stream.getvalue() == ""
        monkeypatch.setattr(module, "_DELAY_S", -1.0)
        update("big.log", 20, 100)
        update("big.log", 60, 100)
    shown = stream.getvalue()
    assert "Reading big.log" in shown
    # The line of the bar is erased, and the cursor is shown again.
    assert shown.rstrip().endswith("\x1b[2K")
    assert "\x1b[?25h" in shown
