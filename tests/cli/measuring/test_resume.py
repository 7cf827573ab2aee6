"""``--resume`` of runs that another user wrote."""

import io
import sys
from pathlib import Path

import pytest

from hvdprof.api import measured_runs
from hvdprof.api.measured_runs import plan_measurement, plan_resume
from hvdprof.api.options import RunOptions
from hvdprof.cli.main import main
from hvdprof.cli.measuring.measure_and_report import confirm
from hvdprof.errors import UsageError
from hvdprof.launch.run.script_launcher import Tools
from tests.builders.survey import make_build, make_mpi


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = Tools(make_build(), make_mpi())
    monkeypatch.setattr(measured_runs, "find_tools", lambda *_: tools)
    command = ("bash", "-c", "touch escaped \x1b[2J")
    folder = tmp_path / "run"
    plan_measurement(RunOptions(np=2, command=command, output=folder)).make_folder()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("n\n", False), ("", False)])
def test_the_command_is_shown_and_confirmed(foreign: Path, answer: str, goes_on: bool) -> None:
    shown = io.StringIO()
    planned = plan_resume(foreign)
    if goes_on:
        confirm(planned, _Terminal(answer), shown)
    else:
        with pytest.raises(UsageError, match="is not resumed"):
            confirm(planned, _Terminal(answer), shown)
    assert r"bash -c 'touch escaped \x1b[2J'" in shown.getvalue()
    assert shown.getvalue().endswith("Resume it? [y/N] ")


def test_without_a_terminal_nothing_starts(foreign: Path) -> None:
    with pytest.raises(UsageError, match="is not resumed"):
        confirm(plan_resume(foreign), io.StringIO("y\n"), io.StringIO())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "--resume", "run"), "is a run of a script"),
        (("bench", "--resume", "run", "--yes"), "is a run of a script"),
        (("run", "--resume", "run"), "is not resumed"),
    ],
)
def test_the_commands_refuse_it(
    foreign: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["hvdprof", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(foreign.parent.glob("escaped*"))
