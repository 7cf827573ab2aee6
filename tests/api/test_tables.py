"""A large timeline is converted and queried out of the files that keep it, with the same result."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import tables
from hvdprof.api.runs import load_run
from hvdprof.api.tables import large_executions, load_tables
from hvdprof.errors import UsageError
from hvdprof.ingest.storage import cached_table, parquet_cache
from hvdprof.ingest.tables import standalone_timeline
from tests.builders.places import RECORDINGS
from tests.cli.test_convert import invoke

stream = pytest.importorskip("hvdprof.ingest.timeline.stream", reason="it is compiled")

RECORDING = RECORDINGS / "07_mpi_fp16.json"


@pytest.fixture
def timeline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    path = tmp_path / "it's a timeline.json"
    shutil.copy(RECORDING, path)
    return path


def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on files of any size are large, and are not read as a whole."""

    def never(path: Path, **options: object) -> None:
        raise AssertionError(f"{path} was read as a whole")

    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    monkeypatch.setattr(cached_table, "FEWEST_ROWS_OF_PIECE", 1)
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(standalone_timeline, "read_timeline_file", never)


@pytest.mark.heavy
def test_a_folder_of_tables_is_the_same(
    timeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("convert", timeline, "-o", tmp_path / "small")
    large(monkeypatch)
    invoke("convert", timeline, "-o", tmp_path / "large")
    names = {path.stem for path in (tmp_path / "small").iterdir()}
    assert {path.stem for path in (tmp_path / "large").iterdir()} == names
    assert {"events", "tensor_uses", "executions", "inferred_steps", "timelines"} <= names
    for name in names:
        small, cached = (
            pd.read_parquet(tmp_path / folder / f"{name}.parquet") for folder in ("small", "large")
        )
        pd.testing.assert_frame_equal(cached, small, check_categorical=False)


@pytest.mark.heavy
def test_progress_counts_the_executions_until_they_are_in_the_cache(
    timeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(monkeypatch)
    monkeypatch.setattr(tables, "_EXECUTIONS_AT_ONCE", 5)
    num, first = executions_reported(timeline)
    assert len(first) >= num / 5 > 1
    assert first == sorted(set(first))
    assert first[-1] == num
    assert executions_reported(timeline) == (num, [])


def executions_reported(timeline: Path) -> tuple[int, list[int]]:
    """The executions of a timeline, and the numbers of them that were reported as done."""
    calls: list[tuple[str, int, int]] = []
    tables = load_tables([timeline], progress=lambda *call: calls.append(call))
    num = len(tables["executions"])
    return num, [done for file, done, total in calls if (file, total) == (str(timeline), num)]


@pytest.mark.heavy
def test_executions_of_a_large_timeline_have_the_numbers_of_its_collectives(
    timeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_tables([timeline]).table("collectives")
    assert large_executions(load_run(timeline), str(timeline)) is None
    large(monkeypatch)
    pieces = large_executions(load_run(timeline), str(timeline))
    assert pieces is not None
    found = pd.concat(pieces, ignore_index=True)
    assert len(found) > 10
    for name in ("start_ns", "dur_ns", "size_bytes", "transfer_ns", "busbw_gb_per_s", "fusion_id"):
        pd.testing.assert_series_equal(found[name], expected[name], obj=name)


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_the_events_as_text_are_the_same(
    ending: str, timeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--table", "events") if ending == "csv" else ()
    invoke("convert", timeline, *options, "-o", tmp_path / f"small.{ending}")
    large(monkeypatch)
    invoke("convert", timeline, *options, "-o", tmp_path / f"large.{ending}")
    small, cached = (tmp_path / f"{name}.{ending}" for name in ("small", "large"))
    assert cached.read_text() == small.read_text()


@pytest.mark.heavy
def test_a_question_is_answered_the_same(timeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    statement = (
        "SELECT pass_id, phase, collective, count(*) AS n, sum(dur_ns) AS ns, min(step) AS first, "
        "max(size_bytes) AS size FROM events JOIN timelines USING (pass_id) GROUP BY ALL "
        "ORDER BY ALL"
    )
    small = invoke("sql", timeline, statement, "--format", "json").stdout
    large(monkeypatch)
    assert invoke("sql", timeline, statement, "--format", "json").stdout == small
    assert len(json.loads(small)) > 3
    catalogue = invoke("sql", timeline, "--tables").stdout
    assert "events" in catalogue


@pytest.mark.heavy
def test_the_rows_carry_the_name_that_the_file_has_now(
    timeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    large(monkeypatch)
    statement = "SELECT DISTINCT pass_id FROM events"
    invoke("sql", timeline, statement)
    monkeypatch.chdir(timeline.parent)
    assert json.loads(invoke("sql", timeline.name, statement, "--format", "json").stdout) == [
        {"pass_id": timeline.name}
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("place", ["read_parquet('{path}')", "read_text('{path}')"])
def test_other_files_stay_out_of_reach(
    place: str, timeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    large(monkeypatch)
    other = tmp_path / "other.parquet"
    pd.DataFrame({"x": [1]}).to_parquet(other)
    with pytest.raises(UsageError):
        invoke("sql", timeline, f"SELECT * FROM {place.format(path=other)}")
