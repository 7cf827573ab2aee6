"""docs/howto/tables.md: its own blocks run, and pandas and SQL give the same answer."""

import ast
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import load_tables
from tests.builders.places import RECORDINGS, ROOT
from tests.ingest.nccl.test_joining import LOG

pytest.importorskip("duckdb", reason="the extra sql is not installed")

PAGE = (ROOT / "docs" / "howto" / "tables.md").read_text(encoding="utf-8")
LONGEST = 3
NCCL_TESTS = """\
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid 10 on n1 device  0 [0x07] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid 11 on n1 device  1 [0x0a] NVIDIA A100-SXM4-40GB
#
#                                                       out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    100.0   10.49   10.49      0    110.0    9.53    9.53      0
     2097152        524288     float     sum      -1    120.0   17.48   17.48      0    125.0   16.78   16.78      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 13.57
"""  # noqa: E501


def blocks() -> list[tuple[str, str]]:
    """The blocks of a language that answer questions: pandas and SQL in turn."""
    questions = PAGE.partition("## Top tensors")[2]
    found = re.findall(r"```(python|sql)\n(.*?)```", questions, re.DOTALL)
    return [(language, text) for language, text in found]


def pairs() -> list[tuple[str, str]]:
    found = blocks()
    assert [language for language, _ in found] == ["python", "sql"] * (len(found) // 2)
    texts = [text for _, text in found]
    return list(zip(texts[::2], texts[1::2], strict=True))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any") / "job"
    folder.mkdir()
    shutil.copy(RECORDINGS / "07_mpi_fp16.json", folder)
    (folder / "nccl.log").write_text(LOG)
    (folder / "nccl_tests.txt").write_text(NCCL_TESTS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("pair", pairs(), ids=range(len(pairs())))
def test_an_answer_takes_three_lines_and_both_ways_agree(job: Path, pair: tuple[str, str]) -> None:
    from hvdprof.report.table_query import query

    python, sql = pair
    assert max(len(text.strip().splitlines()) for text in pair) <= LONGEST
    tables = load_tables(job)
    by_pandas = last_value(python, {"tables": tables})
    by_sql = query(tables, sql).to_pandas()
    assert len(by_pandas) > 0
    assert not by_pandas.isna().all(axis=None)
    left, right = rows_of(by_sql), rows_of(by_pandas)
    assert sorted(left) == sorted(right)
    for key, numbers in left.items():
        assert numbers == pytest.approx(right[key], nan_ok=True)


def rows_of(frame: pd.DataFrame) -> dict[str, list[float]]:
    """The numbers of each row by its texts; what is missing is NaN."""
    rows = {}
    for values in frame.to_numpy(dtype=object).tolist():
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if not isinstance(value, str)]
        key = f"{texts} {numbers[0]}"
        rows[key] = [float("nan") if pd.isna(number) else float(number) for number in numbers]
    return rows


def last_value(code: str, names: dict[str, object]) -> pd.DataFrame:
    """What a notebook cell shows: the value of its last line."""
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), "<page>", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
    assert isinstance(value, pd.DataFrame)
    return value


@pytest.mark.heavy
def test_the_first_lines_of_the_page_run(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(job.parent)
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    exec(compile(code, "<page>", "exec"), {})
    text = capsys.readouterr().out
    assert "nccl_nics  " in text
    assert "Number of the execution within its file" in text


def test_every_table_of_the_list_is_declared() -> None:
    from hvdprof.model.table_catalogue import TABLES

    rows = re.findall(r"^\| .*\? \| (.*) \|$", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(rows) > len(pairs())
    assert named <= {table.name for table in TABLES}


@pytest.mark.heavy
def test_the_devices_that_ranks_use_are_those_of_the_log(job: Path) -> None:
    nics = load_tables(job).nccl_nics.query("num_connections > 0")
    assert nics[["rank", "name"]].to_numpy().tolist() == [[0, "mlx5_1"], [1, "mlx5_0"]]
