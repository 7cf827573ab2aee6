import csv
import io
import json
import re

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from tests.builders.analysis import sweep
from tests.builders.run_directory import write_run


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """Eight runs; from the fifth on 2 ranks take 10 % longer."""
    folder = tmp_path_factory.mktemp("series")
    for number in range(8):
        step_ms = (12.0 if number < 4 else 13.2) * (1 + 0.001 * (number % 3))
        created = f"2026-11-{number + 1:02d}T08:00:00+00:00"
        write_run(folder / f"r{number}", sweep({1: 10.0, 2: step_ms}), created_at=created)
    return folder


def invoke(*arguments):
    result = CliRunner().invoke(build_app(), ["history", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.slow
def test_the_run_from_which_on_it_is_slower_is_the_first_line(series):
    out = invoke(series).stdout
    assert out.startswith("mnist on 2 ranks: step time +10.")
    assert "from r4 on." in out.splitlines()[0]
    assert "mnist on 1 rank" in out


@pytest.mark.slow
def test_json_and_csv(series):
    content = json.loads(invoke(series, "--format", "json").stdout)
    changed = [row for row in content["history"] if row["is_change"]]
    assert [(row["run"], row["np"]) for row in changed] == [("r4", 2)]

    rows = list(csv.DictReader(io.StringIO(invoke(series, "--format", "csv").stdout)))
    assert [row["run"] for row in rows] == [f"r{number}" for number in range(8)]
    assert float(rows[4]["mnist_np2_horovod_step_time_ns"]) == pytest.approx(13.2e6, rel=0.01)


@pytest.mark.slow
def test_one_run_and_unknown_metrics_are_refused(series, tmp_path):
    with pytest.raises(UnreadableInputError, match="needs two runs"):
        invoke(series / "r0")
    with pytest.raises(UsageError, match="'speed'"):
        invoke(series, "--metric", "speed")
    for name, error, reason in [
        ("history.bmp", UsageError, r"\.png, \.svg, \.pdf"),
        ("there.png", StorageError, "--force"),
    ]:
        path = tmp_path / name
        path.write_bytes(b"")
        asked = CliRunner().invoke(build_app(), ["history", str(series), "--figure", str(path)])
        assert isinstance(asked.exception, error)
        assert re.search(reason, asked.exception.hint)
        # What is refused is refused before the series is read.
        assert asked.stdout == ""
