import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import UsageError
from tests.builders.net_recording import of_hosts
from tests.builders.run_directory import write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory as `hvdprof net` leaves it, of three hosts of which one has a slow link."""
    folder = write_run(tmp_path / "run", [])
    of_hosts([1e8, 1e8, 2e7]).write(folder)
    return folder


def invoke(*arguments: Any) -> Any:
    result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_slow_links_are_those_of_the_analysis_of_the_run(run: Path) -> None:
    text = invoke("net", run).stdout
    _, _, findings = text.partition("\nFindings\n")
    assert "Slow network link: h3" in findings
    assert findings.strip() in invoke("analyze", run).stdout


def test_json_has_the_rows_that_the_analysis_of_the_run_has(run: Path) -> None:
    printed = json.loads(invoke("net", run, "--format", "json").stdout)
    analysed = json.loads(invoke("analyze", run, "--format", "json").stdout)
    assert printed["findings"] == analysed["findings"] != []
    assert printed["net_links"] == analysed["tables"]["net_links"]


def test_a_run_and_hosts_are_not_taken_together(run: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        invoke("net", run, "--hosts", "h1,h2")
