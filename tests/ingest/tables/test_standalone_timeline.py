import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.storage import cached_table, parquet_cache
from hvdprof.ingest.storage.cached_table import CachedTable
from hvdprof.ingest.storage.parquet_cache import FOLDER
from hvdprof.ingest.tables import standalone_timeline
from hvdprof.ingest.timeline import machine_code
from hvdprof.model.notes import texts
from hvdprof.model.run import Run
from tests.builders.places import RECORDINGS


@pytest.fixture
def caching_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which files of any size are cached."""
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def never_parse(path: Path, **options: object) -> None:
    raise AssertionError(f"{path} was parsed again")


def assert_same(left: Run, right: Run) -> None:
    assert left.notes == right.notes
    assert left.tables.keys() == right.tables.keys()
    for name, frame in left.tables.items():
        pd.testing.assert_frame_equal(frame, right.tables[name], check_categorical=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "07_mpi_fp16.json",
        "12_dynamic_b_started_midop.json",
        "14_gloo_unescaped_names.json",
    ],
)
@pytest.mark.parametrize("rows_at_once", [100, 1 << 18])
def test_a_cached_file_has_the_tables_of_the_parsed_file(
    name: str, rows_at_once: int, caching_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = pytest.importorskip("hvdprof.ingest.timeline.stream", reason="it is compiled")
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", rows_at_once)
    path = caching_folder / name
    shutil.copy(RECORDINGS / name, path)
    with monkeypatch.context() as uncached:
        uncached.setattr(parquet_cache, "CACHE_FROM_BYTES", 10**9)
        plain = load_run(path)
        assert not (caching_folder / FOLDER).exists()
    # From here on it is read in parts or not at all.
    monkeypatch.setattr(standalone_timeline, "read_timeline_file", never_parse)
    first = load_run(path)
    monkeypatch.setattr(stream, "read_in_parts", never_parse)
    second = load_run(path)
    assert len(plain.events)
    assert_same(plain, first)
    assert_same(plain, second)
    assert (caching_folder / FOLDER).is_dir()


@pytest.mark.heavy
def test_a_cached_file_is_analyzed_like_a_small_one_without_a_large_table_in_memory(
    caching_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = pytest.importorskip("hvdprof.ingest.timeline.stream", reason="it is compiled")
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(cached_table, "FEWEST_ROWS_OF_PIECE", 200)
    path = caching_folder / "04.json"
    shutil.copy(RECORDINGS / "04_gloo_straggler_rank1_cache_off.json", path)
    with monkeypatch.context() as uncached:
        uncached.setattr(parquet_cache, "CACHE_FROM_BYTES", 10**9)
        small = analyze_files(load_run(path))
    run = load_run(path)

    read, frame = [], CachedTable.frame

    def recorded_frame(self: CachedTable) -> pd.DataFrame:
        read.append(self.table.name)
        return frame(self)

    with monkeypatch.context() as watched:
        watched.setattr(CachedTable, "frame", recorded_frame)
        large = analyze_files(run)
    assert sorted(set(read) - {"timelines", "notes"}) == ["inferred_steps"]
    assert not list((caching_folder / FOLDER).glob("*-events-*")), "analyze needs no row of EVENTS"
    assert large.files == small.files
    assert "Rank 1 submits last" in large.files[0].verdict
    assert len(list(run.cached[str(path)]["events"].pieces())) > 2
    assert len(run.events) == len(small.run.events)
    assert run.events is run.events


@pytest.mark.heavy
def test_rows_stay_readable_where_a_later_reading_takes_their_place(caching_folder: Path) -> None:
    path = caching_folder / "growing.json"
    whole = (RECORDINGS / "14_gloo_unescaped_names.json").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    half = load_run(path)
    path.write_bytes(whole)
    assert len(load_run(path).events) > len(half.events) > 0


@pytest.mark.heavy
def test_a_file_replaced_before_its_events_are_used_is_an_error(
    caching_folder: Path,
) -> None:
    pytest.importorskip("numba", reason="reading in parts is compiled")
    path = caching_folder / "replaced.json"
    shutil.copy(RECORDINGS / "04_gloo_straggler_rank1_cache_off.json", path)
    run = load_run(path)
    num_events = run.row_counts["events"]
    shutil.copy(RECORDINGS / "07_mpi_fp16.json", path)
    with pytest.raises(UnreadableInputError, match="was replaced while it was read"):
        len(run.events)
    assert load_run(path).row_counts["events"] != num_events
    assert not list((caching_folder / FOLDER).glob("*-events-*"))


@pytest.mark.heavy
@pytest.mark.parametrize("from_then_on", [False, True], ids=["from the start", "for the events"])
def test_without_compiled_code_the_tables_are_the_same(
    from_then_on: bool, caching_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="reading in parts is compiled")
    path = caching_folder / "refused.json"
    shutil.copy(RECORDINGS / "07_mpi_fp16.json", path)
    with monkeypatch.context() as uncached:
        uncached.setattr(parquet_cache, "CACHE_FROM_BYTES", 10**9)
        plain = load_run(path)
    early = load_run(path) if from_then_on else None
    monkeypatch.setattr(machine_code, "_refusals", ["numba refuses"])

    run = early or load_run(path)
    assert_same(plain, run)
    assert len(run.events) == len(plain.events) > 0


@pytest.mark.heavy
def test_the_name_is_the_one_that_was_given_now(
    caching_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(RECORDINGS / "16_mpi_stall_shutdown.json", caching_folder / "a.json")
    load_run(caching_folder / "a.json")
    monkeypatch.chdir(caching_folder)
    monkeypatch.setattr(standalone_timeline, "read_timeline_file", never_parse)
    run = load_run("a.json")
    assert all(set(run.table(name)["pass_id"]) == {"a.json"} for name in ("events", "timelines"))
    assert any(note.startswith("a.json: ") for note in texts(run.notes))
    assert not any(str(caching_folder) in note for note in texts(run.notes))


@pytest.mark.slow
def test_several_files_are_cached_separately(
    caching_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("11_dynamic_a.json", "12_dynamic_b_started_midop.json"):
        shutil.copy(RECORDINGS / name, caching_folder / name)
    together = load_run(caching_folder)
    monkeypatch.setattr(standalone_timeline, "read_timeline_file", never_parse)
    assert_same(load_run(caching_folder), together)
    assert together.events["pass_id"].nunique() == 2


def test_a_file_that_holds_nothing_usable_stays_one(caching_folder: Path) -> None:
    path = caching_folder / "empty.json"
    path.write_text(json.dumps([{"ph": "B", "tid": 1, "cat": "x", "name": "NEGOTIATE_"}] * 3))
    messages = []
    for _ in range(2):
        with pytest.raises(UnreadableInputError) as refused:
            load_run(path)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
