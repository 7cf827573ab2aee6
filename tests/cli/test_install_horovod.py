from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from hvdprof.api import machine
from hvdprof.cli import install_horovod as command
from hvdprof.cli.main import build_app
from hvdprof.errors import BuildFailedError
from hvdprof.machine.install.install_request import InstallRequest, InstallResult
from hvdprof.machine.install.verify import Trial
from tests.builders.survey import make_build

RESULT = InstallResult(
    build=make_build(),
    source="built",
    wheel=Path("/cache/wheels/k/horovod.whl"),
    log=Path("/cache/logs/horovod.log"),
    trials=[Trial("one process", worked=True)],
    seconds=112.4,
)


class FakeInstaller:
    """Stands for the installer: records the requests and ends with the outcome of the test."""

    asked: list[InstallRequest]
    outcome: InstallResult | Exception

    def __init__(self, request: InstallRequest, progress: Any) -> None:
        self.asked.append(request)
        self.progress = progress

    def install(self) -> InstallResult:
        self.progress.stage("configuring")
        for percent in range(0, 101, 2):
            self.progress.fraction(percent / 100)
        self.progress.note("Open MPI could not be installed.")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch) -> type[FakeInstaller]:
    class Fresh(FakeInstaller):
        asked: list[InstallRequest] = []  # noqa: RUF012 - one list for each test
        outcome: InstallResult | Exception = RESULT

    monkeypatch.setattr(machine, "Installer", Fresh)
    return Fresh


def run(*arguments: str) -> Any:
    return CliRunner().invoke(build_app(), ["install-horovod", *arguments])


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        ((), InstallRequest()),
        (("--gpu", "--mpi"), InstallRequest(gpu=True, mpi=True)),
        (("--tensorflow",), InstallRequest(tensorflow=True)),
        (("--no-mpi", "--force"), InstallRequest(mpi=False, force=True)),
        (("--no-cache", "--jobs", "3"), InstallRequest(keep_wheel=False, jobs=3)),
        (("--wheel-dir", "out"), InstallRequest(wheel_folder=Path("out"))),
    ],
)
def test_options_become_a_request(
    arguments: tuple[str, ...], request_: InstallRequest, installer: type[FakeInstaller]
) -> None:
    assert run(*arguments).exit_code == 0
    assert installer.asked == [request_]


def test_no_jobs_is_refused(installer: type[FakeInstaller]) -> None:
    assert run("--jobs", "0").exit_code == 2
    assert installer.asked == []


def test_result_says_what_was_verified_and_where_things_are(
    installer: type[FakeInstaller],
) -> None:
    lines = run().stdout.splitlines()
    assert lines == [
        "Horovod 0.28.1 for torch 2.13.0+cpu built and installed (MPI, Gloo; 1 min 52 s).",
        "  works: one process",
        "  wheel: /cache/wheels/k/horovod.whl",
        "  log:   /cache/logs/horovod.log",
    ]


def test_progress_in_a_pipe_is_a_line_every_tenth(installer: type[FakeInstaller]) -> None:
    lines = run().stderr.splitlines()
    assert lines[0].endswith("configuring")
    assert lines[-1].endswith("Open MPI could not be installed.")
    assert [line.split()[-2] for line in lines[1:-1]] == [str(p) for p in range(10, 101, 10)]


def test_a_failure_keeps_its_message_and_its_exit_code(installer: type[FakeInstaller]) -> None:
    installer.outcome = BuildFailedError("x.cc:1:1: error: no", hint="hvdprof doctor")
    result = run()
    assert isinstance(result.exception, BuildFailedError)
    assert result.exception.exit_code == 8
    assert result.stdout == ""


def test_progress_on_a_terminal_is_one_bar() -> None:
    console = Console(force_terminal=True, width=80, record=True)
    with console.capture() as capture, Progress(console=console) as bar:
        progress = command.BarProgress(bar)
        progress.stage("configuring")
        assert bar.tasks[0].description == "configuring"
        assert bar.tasks[0].total is None
        progress.fraction(0.37)
        assert (bar.tasks[0].description, bar.tasks[0].percentage) == ("compiling", 37.0)
        progress.note("[kept] as it is")
    assert "[kept] as it is" in capture.get()
