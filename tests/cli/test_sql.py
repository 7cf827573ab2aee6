import csv
import json
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError, UsageError
from tests.builders.run_directory import PassSpec, write_run
from tests.cli.test_convert import TEXT, invoke

pytestmark = pytest.mark.slow

pytest.importorskip("duckdb", reason="the extra sql is not installed")

SUM = "SELECT sum(np) AS ranks, max(samples_per_s) AS best FROM throughput"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "results.txt"
    path.write_text(TEXT)
    return path


def test_as_a_table(table: Path) -> None:
    lines = invoke("sql", table, SUM).stdout.split()
    assert lines[:2] == ["ranks", "best"]
    assert lines[-2:] == ["7", "300.0"]
    assert invoke("sql", SUM, table).stdout.split() == lines


def test_as_json_and_csv(tmp_path: Path, table: Path) -> None:
    assert json.loads(invoke("sql", table, SUM, "--format", "json").stdout) == [
        {"ranks": 7, "best": 300.0}
    ]
    output = tmp_path / "out.csv"
    assert invoke("sql", table, SUM, "-o", output).stderr == f"Wrote {output}\n"
    assert list(csv.reader(output.read_text().splitlines())) == [["ranks", "best"], ["7", "300.0"]]


def test_missing_values_are_null_and_empty(table: Path) -> None:
    statement = "SELECT stated_speedup FROM throughput LIMIT 1"
    assert json.loads(invoke("sql", table, statement, "--format", "json").stdout) == [
        {"stated_speedup": None}
    ]
    assert invoke("sql", table, statement, "--format", "csv").stdout == 'stated_speedup\n""\n'


def test_of_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [PassSpec(), PassSpec(size=2)])
    statement = "SELECT np FROM scaling ORDER BY np"
    assert json.loads(invoke("sql", run, statement, "--format", "json").stdout) == [
        {"np": 1},
        {"np": 2},
    ]


def test_the_tables_with_their_sentences(table: Path) -> None:
    text = invoke("sql", table, "--tables").stdout
    assert "throughput  3 rows. " in text
    assert "samples_per_s" in text
    assert "Without rows here: segments" in text


def test_many_rows_are_counted_not_printed(table: Path) -> None:
    text = invoke("sql", table, "SELECT range AS i FROM range(2500)").stdout
    assert "... and 1,500 rows more" in text
    assert " 1000\n" not in text


def test_one_statement_or_the_list(table: Path) -> None:
    for arguments in ([], [SUM, "--tables"]):
        with pytest.raises(UsageError, match="Give one statement"):
            invoke("sql", table, *arguments)


def test_a_file_of_another_ending_and_no_file(tmp_path: Path, table: Path) -> None:
    with pytest.raises(UsageError, match="chooses no format"):
        invoke("sql", table, SUM, "-o", tmp_path / "a.xlsx")
    with pytest.raises(UnreadableInputError, match="does not exist"):
        invoke("sql", tmp_path / "nowhere", SUM)
