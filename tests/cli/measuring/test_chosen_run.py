import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.cli.measuring.chosen_run import chosen_pair, chosen_paths, run_of
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.rundir.layout import MANIFEST_NAME
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(folder, minute):
    """A run directory that began at a minute after ten."""
    write_run(folder, [PassSpec(segments=[SegmentSpec(parts_ms=typical_parts(10.0))])])
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    manifest["created_at"] = f"2026-03-01T10:{minute:02}:00+00:00"
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    return Path(os.path.relpath(folder))


def test_without_a_path_the_newest_run_is_read_and_said(here, capsys):
    made(here / "runs" / "b-older", 1)
    newest = made(here / "runs" / "a-newer", 2)
    assert chosen_paths(None, "hvdprof analyze RUN") == [newest]
    assert capsys.readouterr().err == (
        "hvdprof: reading runs/a-newer (2026-03-01 10:02 UTC): the newest run in ./runs\n"
    )


def test_given_paths_are_read_without_a_word(here, capsys):
    run = made(here / "runs" / "one", 1)
    (here / "t.csv").write_text("np,samples/s\n1,100\n")
    given = [Path("t.csv"), Path("-")]
    assert chosen_paths(given, "") == given
    assert chosen_paths([run], "") == [run]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("make", [False, True])
def test_without_a_path_and_without_a_run_the_command_is_shown(here, make):
    if make:
        (here / "runs").mkdir()
    with pytest.raises(UsageError, match=r"\./runs holds no run\.") as error:
        chosen_paths([], "hvdprof analyze RUN")
    assert error.value.hint == "hvdprof analyze RUN"


def test_the_only_run_of_a_folder_is_read_and_said(here, capsys):
    run = made(here / "out" / "run", 1)
    (here / "out" / "train.log").write_text("epoch 1\n")
    assert run_of(Path("out"), "") == run
    said = capsys.readouterr().err
    assert said.endswith(": the only run directory in out; 1 file beside it not read\n")


def test_of_several_runs_in_a_folder_one_must_be_named(here):
    for number in range(12):
        made(here / "out of" / f"run{number}", number)
    with pytest.raises(UnreadableInputError) as error:
        run_of(Path("out of"), "hvdprof analyze RUN")
    assert error.value.message.splitlines()[:3] == [
        "out of holds 12 run directories. Name one:",
        "  out of/run11 (2026-03-01 10:11 UTC)",
        "  out of/run10 (2026-03-01 10:10 UTC)",
    ]
    assert error.value.message.endswith("\n  and 2 more")
    assert error.value.hint == "hvdprof analyze 'out of/run11'"


def test_the_two_newest_runs_are_compared_the_older_as_the_baseline(here, capsys):
    made(here / "runs" / "old", 1)
    before = made(here / "runs" / "b", 2)
    after = made(here / "runs" / "a", 3)
    assert chosen_pair([]) == (before, after)
    assert capsys.readouterr().err == (
        "hvdprof: reading runs/b (2026-03-01 10:02 UTC): the baseline\n"
        "hvdprof: reading runs/a (2026-03-01 10:03 UTC): the newer run\n"
    )


def test_one_run_is_compared_with_the_newest_other_one(here):
    old = made(here / "runs" / "old", 1)
    before = made(here / "runs" / "before", 2)
    newest = made(here / "runs" / "newest", 3)
    elsewhere = made(here / "kept" / "baseline", 0)
    assert chosen_pair([old]) == (old, newest)
    assert chosen_pair([newest]) == (before, newest)
    assert chosen_pair([elsewhere]) == chosen_pair([Path("kept")]) == (elsewhere, newest)


def test_both_runs_of_a_pair_are_compared(here):
    pair = [made(here / "runs" / "pair" / name, minute) for minute, name in enumerate("ab")]
    assert chosen_pair([Path("runs/pair")]) == tuple(pair)


def test_one_run_alone_has_nothing_to_be_compared_with(here):
    run = made(here / "runs" / "one", 1)
    (here / "t.csv").write_text("np,samples/s\n1,100\n")
    for given in ([], [run], [Path("t.csv")], [run] * 3):
        with pytest.raises(UsageError):
            chosen_pair(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("analyze", ["--format", "json"]),
        ("report", []),
        ("convert", ["-o", "tables"]),
        ("export", ["-o", "trace.json"]),
        ("sql", ["SELECT * FROM scaling"]),
        ("sql", ["--tables"]),
        ("sql", ["SELECT np FROM scaling" + 300 * " "]),
    ],
)
@pytest.mark.parametrize("given", [[], ["runs"]])
def test_the_commands_read_the_run_of_the_folder(here, command, options, given):
    made(here / "runs" / "one", 1)
    result = CliRunner().invoke(build_app([command]), [command, *given, *options])
    assert result.exit_code == 0, result.exception
    assert result.stderr.startswith("hvdprof: reading runs/one (2026-03-01 10:01 UTC): ")
