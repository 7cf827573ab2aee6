from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.cli.measuring.command_words import Command, separated
from hvdprof.errors import UsageError

OPTIONS = {"--np": True, "-H": True, "--trace": False, "--run": False}


def words(line):
    return separated(line.split(), OPTIONS, "hvdprof run")


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("python train.py --epochs 1", "-- python train.py --epochs 1"),
        ("--np 2 --trace -H h1:2 ls -l", "--np 2 --trace -H h1:2 -- ls -l"),
        ("--np=2 env X=1 python -u t.py", "--np=2 -- env X=1 python -u t.py"),
        ("--run python a.py --against -- sh -c x", "--run -- python a.py --against -- sh -c x"),
    ],
)
def test_a_program_begins_the_command(line, marked):
    assert words(line) == marked.split()


@pytest.mark.parametrize(
    "line",
    [
        "--np 2 -- nothing.py --np 3",
        "nothing.py",
        "python train.py",
        "python train.py --help",
        "--np",
        "--bogus",
        "--bogus 2 -- python train.py --epochs 1",
        "/tmp --trace",
        "",
    ],
)
def test_other_words_stay_as_they_are(line):
    assert words(line) == line.split()


def test_a_file_begins_the_command(tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("")
    assert words(f"{script} --epochs 1") == ["--", str(script), "--epochs", "1"]


def test_of_what_is_no_program_the_whole_command_line_is_given():
    with pytest.raises(UsageError, match=r"--epochs stands after nothing\.py: put --") as error:
        words("--np 2 nothing.py --epochs 1 --name 'a")
    with pytest.raises(UsageError):
        words(f"{300 * 'a'} --epochs 1")
    assert error.value.hint == """hvdprof run --np 2 -- nothing.py --epochs 1 --name ''"'"'a'"""


@pytest.mark.parametrize("given", ["--np 2", "--np=2", "--trace"])
def test_an_option_that_may_be_of_either_is_refused_with_both_command_lines(given):
    with pytest.raises(UsageError, match="and hvdprof run has an option of this name") as error:
        words(f"-H h1 python train.py {given} --epochs 1")
    assert error.value.hint.splitlines() == [
        f"hvdprof run -H h1 {given} -- python train.py --epochs 1",
        "  Or, if it is an option of the script: "
        f"hvdprof run -H h1 -- python train.py {given} --epochs 1",
    ]


@pytest.mark.parametrize("command", ["run", "tune", "compare --run"])
def test_a_script_needs_no_mark_before_it(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = f"{command} --np 2 --repeats 3 python train.py --epochs 1 --against python b.py --lr 1"
    result = CliRunner().invoke(build_app(), line.split())
    # The words have been understood; the script is not there.
    assert "train.py does not exist" in str(result.exception)


def test_paths_to_compare_are_no_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(build_app(), ["compare", "a.csv", "b.csv", "--margin", "3%"])
    assert "a.csv does not exist" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], ([], "here", 3)),
        (["a b", "c"], ([Path("a b"), Path("c")], "here", 3)),
        (["--text", "x", "--number", "4", "-"], ([Path("-")], "x", 4)),
    ],
)
def test_values_are_those_of_typer(words, values):
    found = []

    def command(
        paths: Annotated[list[Path] | None, typer.Argument()] = None,
        text: str = "here",
        number: Annotated[int, typer.Option(min=2)] = 3,
    ):
        found.append((list(paths or []), text, number))

    for kind in (None, Command):
        app = typer.Typer()
        app.command(cls=kind)(command)
        assert CliRunner().invoke(app, words).exit_code == 0
        assert CliRunner().invoke(app, [*words, "--number", "1"]).exit_code == 2
        assert CliRunner().invoke(app, [*words, "--number", "x"]).exit_code == 2

    assert found == [values, values]
