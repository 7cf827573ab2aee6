"""Large traces are parsed once: kept tables give the same run, and serve the same bytes only."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hvdprof import api
from hvdprof.ingest.kineto import standalone_traces, traced_pass
from hvdprof.ingest.kineto.trace_file import TraceFile, read_trace_file
from hvdprof.ingest.storage import parquet_cache
from hvdprof.model.run import Run
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.cli.test_convert import invoke


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were parsed; every set of traces counts as large."""
    files: list[Path] = []

    def read(path: Path, **options: object) -> TraceFile:
        files.append(path)
        return read_trace_file(path, **options)

    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    monkeypatch.setattr(traced_pass, "read_trace_file", read)
    return files


def _assert_same(one: Run, other: Run) -> None:
    assert (one.manifest, one.notes) == (other.manifest, other.notes)
    assert list(one.tables) == list(other.tables)
    for name, frame in one.tables.items():
        pd.testing.assert_frame_equal(frame, other.tables[name], obj=name)


def test_a_second_command_parses_nothing_and_gives_the_same(
    tmp_path: Path, parsed: list[Path]
) -> None:
    paths = write_traces(tmp_path / "job", TracedJob(size=3), range(3))
    torn = tmp_path / "job" / "trace_rank9.json"
    torn.write_bytes(paths[0].read_bytes()[:3000])
    first = api.load_run([*paths, torn])
    assert sorted(parsed) == [*paths, torn]
    assert first.notes
    again = api.load_run([*paths, torn])
    assert len(parsed) == 4
    _assert_same(first, again)
    shutil.rmtree(tmp_path / "job" / parquet_cache.FOLDER)
    _assert_same(first, api.load_run([*paths, torn]))
    assert len(parsed) == 8


def test_export_and_sql_after_analyze_parse_nothing(tmp_path: Path, parsed: list[Path]) -> None:
    folder = tmp_path / "job"
    write_traces(folder, TracedJob(size=2), range(2))
    invoke("analyze", folder)
    assert len(parsed) == 2
    invoke("export", folder, "-o", tmp_path / "out.json")
    statement = "SELECT count(*) AS n FROM rank_collectives"
    rows = json.loads(invoke("sql", folder, statement, "--format", "json").stdout)
    assert rows[0]["n"] > 0
    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert len(parsed) == 2


def test_a_changed_trace_is_parsed_again(tmp_path: Path, parsed: list[Path]) -> None:
    paths = write_traces(tmp_path, TracedJob(size=2), range(2))
    before = api.load_run(paths)
    write_traces(tmp_path, TracedJob(size=2, num_steps=6), range(2))
    after = api.load_run(paths)
    assert len(parsed) == 4
    assert len(after.steps) != len(before.steps)


def test_the_number_of_jobs_changes_no_table(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, TracedJob(size=4), range(4))
    _assert_same(api.load_run(paths, jobs=1), api.load_run(paths, jobs=4))


def test_packed_traces_count_by_what_they_hold(tmp_path: Path) -> None:
    path = write_traces(tmp_path, TracedJob(size=1), [0], packed=True)[0]
    assert standalone_traces._text_bytes(path) > 5 * path.stat().st_size
