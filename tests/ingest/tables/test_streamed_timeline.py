"""The tables of a file that is read in parts equal those of the file in memory."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="reading in parts is compiled")

from hvdprof.api import load_run
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.tables import standalone_timeline
from hvdprof.ingest.timeline import stream
from hvdprof.model.run import Run
from tests.builders.timeline_writer import TimelineWriter

pytestmark = pytest.mark.slow

TENSORS = tuple(f"allreduce.layer{number}" for number in range(4))
ROWS_AT_ONCE = 300


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A timeline to be, of which a few hundred rows are read at once."""
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", ROWS_AT_ONCE)
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    return tmp_path / "timeline.json"


def train(writer: TimelineWriter, num_steps: int, tensors: tuple[str, ...] = TENSORS) -> None:
    for _ in range(num_steps):
        writer.now_us += 20_000
        writer.cycle()
        writer.negotiate(tensors, ranks=[0, 1])
        writer.execute(tensors[:3])
        writer.execute(tensors[3:])


def steady(writer: TimelineWriter) -> None:
    train(writer, 200)


def steady_with_many_tensors(writer: TimelineWriter) -> None:
    train(writer, 60, tuple(f"allreduce.layer{number}" for number in range(40)))


def with_an_end_of_its_own(writer: TimelineWriter) -> None:
    train(writer, 200)
    for _ in range(3 * ROWS_AT_ONCE):
        writer.cycle()
    for _ in range(ROWS_AT_ONCE):
        writer.negotiate(["broadcast.a"], op="BROADCAST")
        writer.execute(["broadcast.a"], op="BROADCAST")


def with_another_set(writer: TimelineWriter) -> None:
    train(writer, 100)
    train(writer, 300, (*TENSORS, "allreduce.late", "allreduce.later"))


def with_a_set_that_grows_early(writer: TimelineWriter) -> None:
    train(writer, 60)
    train(writer, 700, (*TENSORS, "allreduce.late"))


def that_ends_without_steps(writer: TimelineWriter) -> None:
    train(writer, 100)
    for number in range(900):
        train(writer, 1, (f"allreduce.noname.{number}",))


def that_begins_without_steps(writer: TimelineWriter) -> None:
    for number in range(400):
        train(writer, 1, (f"allreduce.noname.{number}",))
    train(writer, 2000)


def on_a_clock_that_is_set_back(writer: TimelineWriter) -> None:
    train(writer, 100)
    writer.now_us -= 1_000_000
    train(writer, 100)


def on_another_clock(writer: TimelineWriter) -> None:
    # No header: only the earliest time gives time 0.
    writer.records.pop(0)
    writer.now_us = 700_000_000
    train(writer, 100)
    writer.now_us = 0
    train(writer, 100)


def tables_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, Run]:
    """A file as it is read whole, and as it is read in parts."""

    def never(path: Path, **options: object) -> None:
        raise AssertionError(f"{path} was read whole")

    whole = load_run(path)
    with monkeypatch.context() as cached:
        cached.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
        cached.setattr(standalone_timeline, "read_timeline_file", never)
        return whole, load_run(path)


def assert_same(whole: Run, parts: Run) -> None:
    assert whole.notes == parts.notes
    assert whole.tables.keys() == parts.tables.keys()
    for name, frame in whole.tables.items():
        pd.testing.assert_frame_equal(frame, parts.tables[name], check_categorical=False)


@pytest.mark.parametrize(
    "write",
    [
        steady,
        steady_with_many_tensors,
        with_an_end_of_its_own,
        with_another_set,
        with_a_set_that_grows_early,
        that_ends_without_steps,
        that_begins_without_steps,
        on_a_clock_that_is_set_back,
        on_another_clock,
    ],
)
def test_the_tables_are_those_of_the_whole_file(
    write: Callable[[TimelineWriter], None],
    in_parts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = TimelineWriter()
    write(writer)
    in_parts.write_text(writer.text())
    whole, parts = tables_of(in_parts, monkeypatch)
    assert_same(whole, parts)
    refused = write in (with_another_set, that_ends_without_steps)
    assert ("inferred_steps" in parts.tables) == (not refused)


_PIECES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 15), st.sampled_from([0, 0, 0, 30_000, -5_000])),
    max_size=6,
)


@settings(deadline=None, max_examples=10)
@given(_PIECES, st.integers(20, 400))
def test_any_training_has_the_tables_of_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[int, int, int]],
    rows_at_once: int,
) -> None:
    writer = TimelineWriter()
    train(writer, 60)
    for width, num_steps, pause_us in pieces:
        writer.now_us = max(writer.now_us + pause_us, 0)
        train(writer, num_steps, TENSORS[:width])
    folder = tmp_path_factory.mktemp("any")
    path = folder / "timeline.json"
    path.write_text(writer.text())
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("HVDPROF_CACHE_DIR", str(folder / "user"))
        monkeypatch.setattr(stream, "ROWS_AT_ONCE", rows_at_once)
        whole, parts = tables_of(path, monkeypatch)
    assert_same(whole, parts)
