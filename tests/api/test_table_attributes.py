"""Tables as attributes: all of them, with completion, types and a description."""

from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import Tables, analyze_files, load_run, load_tables
from hvdprof.errors import UsageError
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.table_catalogue import TABLES, DerivedTables, RecordedTables
from tests.builders.places import RECORDINGS

TIMELINE = RECORDINGS / "04_gloo_straggler_rank1_cache_off.json"


def test_every_declared_table_is_an_attribute_of_all_tables() -> None:
    assert {table.name for table in TABLES} <= set(dir(Tables({})))


def test_a_table_is_recorded_or_derived_never_both() -> None:
    both = vars(RecordedTables).keys() & vars(DerivedTables).keys()
    assert {name for name in both if not name.startswith("__")} == set()


def test_a_run_completes_its_tables_and_gives_frames() -> None:
    run = load_run(TIMELINE)
    assert {"tensor_uses", "executions", "stalls"} <= set(dir(run))
    assert len(run.executions) == len(run.table("executions")) > 0
    pd.testing.assert_frame_equal(run.stalls, run.table("stalls"))
    with pytest.raises(AttributeError, match="collectives"):
        run.collectives  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.heavy
def test_an_analysis_has_what_it_derives() -> None:
    analysis = analyze_files(load_run(TIMELINE))
    assert len(analysis.tensors) == len(analysis.derived["tensors"]) > 0
    assert analysis.waterfall.empty
    assert analysis.findings.empty
    assert {"collectives", "tensors"} <= set(dir(analysis))


@pytest.mark.heavy
def test_all_tables_are_a_mapping_with_attributes() -> None:
    tables = load_tables(TIMELINE)
    assert set(tables) == set(tables.row_counts)
    assert len(tables.step_communication) == tables.row_counts["step_communication"] > 0
    assert tables.nccl_nics.columns.tolist()[0] == "rank"
    with pytest.raises(UsageError, match="No table is named"):
        tables.table("tensor")


@pytest.mark.parametrize("holder", [Run, RunAnalysis, FilesAnalysis, Tables])
def test_the_class_itself_has_no_rows(holder: type) -> None:
    name = "executions" if issubclass(holder, RecordedTables) else "collectives"
    with pytest.raises(AttributeError, match="belongs to objects"):
        getattr(holder, name)


def test_describe_prints_columns_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run(TIMELINE)
    run.describe()
    text = capsys.readouterr().out
    assert text.startswith("executions  ")
    assert "dur_ns [ns]" in text
    assert "1 row. One Horovod timeline" in text
    run.describe("nccl_tests")
    text = capsys.readouterr().out
    assert "nccl_tests  0 rows." in text
    assert any(line.split()[:2] == ["busbw_gb_s", "GB/s"] for line in text.splitlines())
    with pytest.raises(UsageError, match="No table is named"):
        run.describe("typo")


@pytest.mark.heavy
def test_one_path_is_enough(tmp_path: Path) -> None:
    copy = tmp_path / "timeline.json"
    copy.write_bytes(TIMELINE.read_bytes())
    assert list(load_tables(copy)) == list(load_tables([copy]))
