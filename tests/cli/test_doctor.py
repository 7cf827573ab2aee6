import json
from typing import Any

import pytest
from typer.testing import CliRunner

from hvdprof.api import machine
from hvdprof.cli import doctor as command
from hvdprof.cli.main import build_app
from hvdprof.machine.doctor.checks import CHECKS, findings_of
from hvdprof.machine.doctor.survey import Survey
from tests.builders.survey import make_host, make_survey


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> list[Survey]:
    """The survey that the command will find; a test replaces the only element."""
    found = [make_survey()]
    monkeypatch.setattr(machine, "take_survey", lambda: found[0])
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(build_app(), ["doctor", *arguments])


@pytest.mark.heavy
def test_ready_machine_ends_with_0(survey: list[Survey]) -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "hvdprof bench can run here."
    assert any(line.startswith("found") and "Open MPI 4.1.8" in line for line in lines)


def test_machine_without_horovod_ends_with_5_and_the_command(survey: list[Survey]) -> None:
    survey[0] = make_survey(horovod=None)
    result = run()
    assert result.exit_code == 5
    assert result.stdout.splitlines()[:2] == [
        "hvdprof bench cannot run here: Horovod. First: hvdprof install-horovod",
        "Without it: hvdprof bench --engine ddp, and hvdprof run with scripts of DDP.",
    ]
    survey[0] = make_survey(horovod=None, torch=None)
    assert "Without it" not in run().stdout


@pytest.mark.parametrize(
    ("changes", "disturbing"),
    [
        ({"load_average": 9.28}, "load 9.28 on 4 cores"),
        ({"environment": {"HOROVOD_CACHE_CAPACITY": "0"}}, "HOROVOD_CACHE_CAPACITY=0"),
    ],
)
def test_the_verdict_names_what_disturbs_a_measurement(
    changes: dict[str, Any], disturbing: str, survey: list[Survey]
) -> None:
    survey[0] = make_survey(**changes)
    first = run().stdout.splitlines()[0]
    assert first == f"hvdprof bench can run here, but {disturbing} will disturb it."


def test_without_a_gpu_no_line_is_on_gpu_links(survey: list[Survey]) -> None:
    assert "GPU topology" not in run().stdout
    survey[0] = make_survey(host=make_host(gpus=[{"name": "H100", "driver": "580.1"}] * 2))
    assert "GPU topology" in run().stdout


def test_every_fix_is_printed_under_its_line(survey: list[Survey]) -> None:
    survey[0] = make_survey(hostname_resolves=False)
    lines = run().stdout.splitlines()
    place = next(i for i, line in enumerate(lines) if "does not resolve" in line)
    assert lines[place].startswith("risk")
    assert lines[place + 1].strip() == '-> echo "127.0.0.1 $(hostname)" >> /etc/hosts'


@pytest.mark.heavy
@pytest.mark.parametrize(("ready", "code"), [(True, 0), (False, 5)])
def test_json_is_one_object_with_stable_keys(ready: bool, code: int, survey: list[Survey]) -> None:
    survey[0] = make_survey(topology="GPU0 X\n") if ready else make_survey(torch=None)
    result = run("--json")
    assert result.exit_code == code
    record = json.loads(result.stdout)
    assert list(record) == [
        "schema_version",
        "hvdprof_version",
        "can_bench",
        "findings",
        "facts",
    ]
    assert record["can_bench"] is ready
    assert len(record["findings"]) == len(CHECKS)
    assert set(record["findings"][0]) == {
        "name",
        "title",
        "state",
        "detail",
        "fix",
        "stops_bench",
        "disturbs_bench",
    }
    assert record["facts"]["topology"] == ("GPU0 X\n" if ready else None)
    if ready:
        assert record["facts"]["torch"]["folder"] == "/venv/torch"


def test_terminal_gets_a_table(survey: list[Survey], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    survey[0] = make_survey(load_average=9.0)
    result = run()
    assert "\x1b[" in result.stdout
    assert "-> top" in result.stdout


def test_markup_in_details_is_printed_as_it_is(survey: list[Survey]) -> None:
    findings = findings_of(make_survey(hostname="[red]"))
    assert any("[red]" in line for line in command.as_lines(findings))
    assert command.as_lines([]) == []


@pytest.mark.horovod
def test_this_machine_can_bench() -> None:
    result = run("--json")
    assert result.exit_code == 0, result.stdout
    record = json.loads(result.stdout)
    assert record["facts"]["horovod"]["version"] == "0.28.1"
    assert record["facts"]["mpi"]["flavour"] == "openmpi"
