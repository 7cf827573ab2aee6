import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import StorageError, UsageError
from tests.builders.run_directory import PassSpec, write_run

TEXT = "np,samples/s\n1,100\n2,190\n4,300\n"


def invoke(*arguments: Any) -> Any:
    result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "results.txt"
    path.write_text(TEXT)
    return path


@pytest.mark.heavy
def test_a_run_becomes_a_folder_of_parquet(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [PassSpec(), PassSpec(size=2)])
    assert invoke("convert", run, "-o", tmp_path / "out").exit_code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"steps.parquet", "scaling.parquet", "launches.parquet"} <= names
    steps = pd.read_parquet(tmp_path / "out" / "steps.parquet")
    assert set(steps["rank"]) == {0, 1}


@pytest.mark.heavy
def test_all_tables_in_one_object(tmp_path: Path, table: Path) -> None:
    assert invoke("convert", table, "-o", tmp_path / "all.json").stderr.startswith("Wrote ")
    content = json.loads((tmp_path / "all.json").read_text())
    assert [row["efficiency"] for row in content["throughput_scaling"]] == [1.0, 0.95, 0.75]


@pytest.mark.slow
def test_one_table_in_one_file(tmp_path: Path, table: Path) -> None:
    output = tmp_path / "a.csv"
    invoke("convert", table, "-o", output, "--table", "throughput")
    assert pd.read_csv(output)["np"].tolist() == [1, 2, 4]
    with pytest.raises(StorageError):
        invoke("convert", table, "-o", output, "--table", "throughput")
    invoke("convert", table, "-o", output, "--table", "throughput", "--force")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "{folder}/a.csv"], "holds one table"),
        (["-o", "{folder}/a.csv", "--table", "nope"], "no table 'nope'"),
        (["-o", "{folder}/a.xlsx", "--table", "throughput"], "chooses no format"),
        (["-o", "{folder}/a", "--format", "xlsx"], "^--format xlsx: not known"),
    ],
)
def test_an_output_that_cannot_be_written_is_reported(
    tmp_path: Path, table: Path, arguments: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        invoke("convert", table, *(one.format(folder=tmp_path) for one in arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["results.txt"]
