import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from hvdprof.api import machine
from hvdprof.api.options import NetOptions
from hvdprof.cli.install_horovod import PlainProgress
from hvdprof.errors import InterruptedRunError, UsageError
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.machine.install.install_request import InstallRequest
from tests.builders.survey import make_build, make_mpi, make_survey


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (NetOptions(hosts="h1,h2", seconds=0.001), "--seconds 0.001: must be a number of 0.01"),
        (NetOptions(hosts="h1,h2", sizes="1k,x"), "'x' is not a size of a message"),
        (NetOptions(hosts="h1", device="cpu"), "between two hosts or more"),
    ],
)
def test_a_mistake_makes_no_run_directory(
    options: NetOptions, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "find_tools", lambda: Tools(make_build(), make_mpi()))
    with pytest.raises(UsageError, match=message):
        machine.measure_net(options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ready", [True, False])
def test_the_report_of_a_machine(ready: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    build = make_build(files={"/lib/libmpi.so": (1, 2)})
    survey = make_survey(horovod=build if ready else None)
    monkeypatch.setattr(machine, "take_survey", lambda: survey)
    report = machine.check_machine()
    assert report.can_bench == ready
    assert any(finding.stops_bench for finding in report.findings) != ready
    assert json.loads(json.dumps(report.facts))["python_version"] == survey.python_version
    assert "libmpi" not in json.dumps(report.facts)


def test_a_signal_ends_the_build_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def installer(*_: object) -> SimpleNamespace:
        return SimpleNamespace(install=lambda: signal.raise_signal(signal.SIGTERM))

    monkeypatch.setattr(machine, "Installer", installer)
    # A test before it in this process may have left the handler of a workspace that is still open.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(InterruptedRunError, match="SIGTERM"):
            machine.install_horovod(InstallRequest(), PlainProgress())
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
