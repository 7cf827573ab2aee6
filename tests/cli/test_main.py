import sys

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import COMMANDS, build_app, main


def printed(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["hvdprof", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


def test_help_groups_the_commands_each_group_with_an_example():
    text = CliRunner().invoke(build_app(), ["--help"]).stdout
    titles = [line.strip("╭─╮ ") for line in text.splitlines() if line.startswith("╭─")]
    assert [title.partition(": ")[0] for title in titles] == [
        "Options",
        "Measure",
        "Read files",
        "Compare and predict",
        "Show and share",
        "Set up this machine",
    ]
    examples = [title.partition(": hvdprof ")[2].split()[0] for title in titles[1:]]
    groups = text.split("╭─")[2:]
    for example, group in zip(examples, groups, strict=True):
        assert f"│ {example} " in group
    assert all(text.count(f"│ {command} ") == 1 for command in COMMANDS)


def test_help_asks_for_a_value_after_options_that_take_one_alone():
    text = CliRunner().invoke(build_app(), ["run", "--help"]).stdout
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if "│ --" in line}
    assert rows["--light"][0] != "<bool>" and "<bool>" not in text
    assert "<value>" in rows["--env"] and "<str>" in rows["--np"]


def test_a_list_of_commands_is_the_same_without_importing_them(capsys, monkeypatch):
    whole = CliRunner().invoke(build_app(), ["--help"]).stdout
    listed = printed(capsys, monkeypatch, "--help")[1].out
    assert listed.partition("╭")[2] == whole.partition("╭")[2]
    # Behind words of the command line a command may stand, too.
    assert printed(capsys, monkeypatch, "--", "doctor", "--help") == printed(
        capsys, monkeypatch, "doctor", "--help"
    )


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("hvdprof ana", ["analyze"]),
        ("hvdprof --vers", ["--version"]),
        ("hvdprof analyze --sec", ["--section"]),
        ("hvdprof run --lau", ["--launcher"]),
        ("hvdprof nothing --x", []),
    ],
)
def test_a_shell_completes_commands_and_their_options(capsys, monkeypatch, line, completed):
    monkeypatch.setenv("_HVDPROF_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    code, output = printed(capsys, monkeypatch)
    assert (code, output.out.split()) == (0, completed)


@pytest.mark.parametrize("words", [["help"], ["help", "sql"], ["help", "install-horovod"]])
def test_help_is_a_command_too(capsys, monkeypatch, words):
    asked = printed(capsys, monkeypatch, *words)
    assert asked == printed(capsys, monkeypatch, *words[1:], "--help")
    assert asked[0] == 0


def test_help_of_an_unknown_command_names_it(capsys, monkeypatch):
    code, output = printed(capsys, monkeypatch, "help", "analyse")
    assert code == 2
    assert "No such command 'analyse'" in output.err
