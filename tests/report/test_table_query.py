import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from hvdprof.errors import InterruptedRunError, MissingExtraError, UsageError
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.printed_tables import NCCL_TESTS
from hvdprof.report.table_query import QueryLimits, query

pytest.importorskip("duckdb", reason="the extra sql is not installed")

TABLES = {
    "files": FILES.frame(
        [
            {
                "file": "a",
                "kind": "text",
                "size_bytes": 5,
                "num_lines": None,
                "num_rows": 0,
                "left_out": "",
            },
            {
                "file": "b",
                "kind": "text",
                "size_bytes": 2**60,
                "num_lines": 7,
                "num_rows": 1,
                "left_out": "",
            },
        ]
    )
}


@pytest.mark.slow
def test_a_select_over_a_table() -> None:
    result = query(TABLES, "SELECT file, num_lines FROM files WHERE kind = 'text' ORDER BY file")
    assert result.to_pylist() == [{"file": "a", "num_lines": None}, {"file": "b", "num_lines": 7}]
    assert query(TABLES, "FROM files").num_rows == 2
    assert query(TABLES, "WITH a AS (SELECT 1 AS x) SELECT x FROM a").to_pylist() == [{"x": 1}]


@pytest.mark.slow
def test_declared_tables_without_rows_are_there() -> None:
    assert query(TABLES, "SELECT count(*) AS n FROM nccl_tests").to_pylist() == [{"n": 0}]
    names = query(TABLES, "SELECT * FROM nccl_tests").column_names
    assert names == NCCL_TESTS.column_names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FORM files", r"syntax error .* at line 1, column \d+\.$"),
        ("SELECT\n nope\nFROM files", r'"nope" not found .* at line 2, column 2\.$'),
        ("SELECT * FROM nowhere", "nowhere does not exist"),
        ("SELECT " + "1 + " * 80 + "nope FROM files", r"at line 1, column 328\.$"),
        ("", "No SQL statements"),
        ("SELECT 1; SELECT 2", "2 SQL statements"),
        ("SELECT 'a'::INTEGER", "Could not convert"),
        (
            "SELECT CASE WHEN range = 500000 THEN ('x' || range)::INT END FROM range(1000000)",
            "Could not convert string 'x500000' to INT32",
        ),
    ],
)
def test_a_wrong_statement_is_one_message_with_its_position(statement: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        query(TABLES, statement)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE a AS SELECT 1",
        "DROP VIEW files",
        "DELETE FROM files",
        "COPY files TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM read_text('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM TABLES",
    ],
)
def test_nothing_but_the_tables_can_be_reached(tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError):
        query(TABLES, statement.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_the_list_of_databases_names_no_file() -> None:
    # DuckDB before 2.0 answers it as a SELECT.
    try:
        rows = query(TABLES, "PRAGMA database_list")
    except UsageError:
        return
    assert "/" not in str(rows.to_pylist())


ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement", ["SELECT list(range) FROM range(100000000)", "SELECT * FROM range(1000000000)"]
)
def test_memory_is_bounded_and_no_file_takes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"more than 0\.1 GB of memory"):
        query(TABLES, statement, QueryLimits(memory_gb=0.1))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_time_is_bounded() -> None:
    with pytest.raises(UsageError, match=r"took longer than 0\.2 s"):
        query(TABLES, ENDLESS, QueryLimits(timeout_s=0.2))


@pytest.mark.slow
def test_ctrl_c_ends_a_query() -> None:
    def interrupt() -> None:
        while not multiprocessing.active_children():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    user = threading.Thread(target=interrupt)
    user.start()
    with pytest.raises(InterruptedRunError, match="The query was interrupted"):
        query(TABLES, ENDLESS)
    user.join()
    assert not multiprocessing.active_children()


SLOW_FUNCTION = "SELECT sum(length(repeat('x', 60000000 + range))) FROM range(300)"


@pytest.mark.slow
def test_a_function_that_allocates_beside_the_buffers_is_bounded() -> None:
    with pytest.raises(UsageError, match=r"more than 0\.1 GB of memory"):
        query(TABLES, "SELECT length(repeat('x', 1400000000))", QueryLimits(memory_gb=0.1))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # DuckDB looks for an interrupt between 2048 rows alone.
    with pytest.raises(UsageError, match="took longer than 1 s"):
        query(TABLES, SLOW_FUNCTION, QueryLimits(timeout_s=1))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Not by the clock: another process may have the core meanwhile.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError) as caught:
        query(TABLES, "SELECT 1")
    assert caught.value.hint == "pip install 'hvdprof[sql]'"
