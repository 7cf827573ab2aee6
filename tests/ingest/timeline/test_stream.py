"""A file read part by part says what it says as a whole."""

import dataclasses
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="reading in parts is compiled")

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.timeline.horovod_timeline import (
    TimelineFile,
    parse_plain,
    read_raw,
    summary_of,
    understood,
)
from hvdprof.ingest.timeline.meaning.rounds import Reductions
from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.step_inference import infer_steps
from hvdprof.ingest.timeline.meaning.timeline_rows import (
    EventRows,
    ExecutionRows,
    UseRows,
    event_rows,
    execution_rows,
    use_rows,
)
from hvdprof.ingest.timeline.stream import NotInPartsError, read_in_parts
from tests.builders.places import CORPUS, RECORDINGS, needs_corpus
from tests.builders.timeline_writer import TimelineWriter

RECORDED = [path for path in sorted(RECORDINGS.glob("*.json")) if ".truth." not in path.name]
COMPRESSED = sorted(RECORDINGS.rglob("*.json.gz"))


class Read:
    """A file that was read in parts: each part, and what is known in the end."""

    def __init__(self, path: Path, **options: int) -> None:
        self.parts: list[tuple[EventRows, UseRows, ExecutionRows]] = []
        self.reductions: list[Reductions] = []
        known = read_in_parts(path, self.take, **options)
        steps = infer_steps(lambda: self.reductions)
        self.summary = summary_of(known.raw, known.counts, steps)
        cycle = self.summary.facts.cycle
        self.files = [
            TimelineFile(events, uses.with_ties(cycle), executions, self.summary)
            for events, uses, executions in self.parts
        ]

    def take(self, known: Semantics) -> None:
        self.parts.append((event_rows(known), use_rows(known), execution_rows(known)))
        self.reductions.append(known.reductions)

    def column(self, table: str, name: str) -> list[Any]:
        pieces = [getattr(getattr(file, table), name) for file in self.files]
        return [value for piece in pieces for value in np.asarray(piece, dtype=object).tolist()]


def assert_same(parts: Read, whole: TimelineFile) -> None:
    for table in ("rows", "uses", "executions"):
        for field in dataclasses.fields(getattr(whole, table)):
            expected = np.asarray(getattr(getattr(whole, table), field.name), dtype=object)
            assert parts.column(table, field.name) == expected.tolist(), (table, field.name)
    assert parts.summary.facts == whole.facts
    assert parts.summary.problems == whole.problems
    assert parts.summary.epoch_us == whole.epoch_us
    for field in dataclasses.fields(whole.steps):
        ours = np.asarray(getattr(parts.summary.steps, field.name)).tolist()
        assert ours == np.asarray(getattr(whole.steps, field.name)).tolist()


@pytest.mark.heavy
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("rows_at_once", [16, 100, 1000])
def test_a_recording_says_the_same_in_parts(path: Path, rows_at_once: int) -> None:
    whole = understood(parse_plain(path.read_bytes()))
    for chunk_bytes in (500, 1 << 16):
        parts = Read(path, rows_at_once=rows_at_once, chunk_bytes=chunk_bytes)
        assert_same(parts, whole)


def parts_that_say_the_same(paths: Iterable[Path], rows_at_once: int) -> int:
    """The number of parts in which these files were read."""
    num_parts = 0
    for path in paths:
        try:
            whole = understood(read_raw(path))
        except UnreadableInputError:
            continue
        parts = Read(path, rows_at_once=rows_at_once)
        assert_same(parts, whole)
        num_parts += len(parts.parts)
    return num_parts


@pytest.mark.slow
def test_compressed_recordings_say_the_same_in_parts() -> None:
    assert parts_that_say_the_same(COMPRESSED, rows_at_once=200) > 100


@pytest.mark.slow
@needs_corpus
def test_public_recordings_say_the_same_in_parts() -> None:
    public = sorted((CORPUS / "horovod_timelines").rglob("*.json"))
    assert parts_that_say_the_same(public, rows_at_once=200) > 100


@pytest.mark.heavy
def test_a_training_is_read_in_many_parts(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(training(60).text())
    parts = Read(path, rows_at_once=100, chunk_bytes=1000)
    assert len(parts.parts) > 5
    assert_same(parts, understood(parse_plain(path.read_bytes())))
    assert len(parts.summary.steps) == 60


def test_a_compressed_file_is_read_in_parts(tmp_path: Path) -> None:
    text = training(20).text().encode()
    path = tmp_path / "timeline.json.gz"
    path.write_bytes(gzip.compress(text))
    parts = Read(path, rows_at_once=100)
    assert len(parts.parts) > 2
    assert [file.rows.start_us.tolist() for file in parts.files] != []
    assert len(parts.column("rows", "tensor")) == len(understood(parse_plain(text)).rows)


def training(num_steps: int) -> TimelineWriter:
    """Steps of four tensors in two batches, with ticks and cycles, and a pause after each."""
    writer = TimelineWriter()
    tensors = [f"allreduce.layer{number}.weight" for number in range(4)]
    for _ in range(num_steps):
        writer.cycle()
        writer.negotiate(tensors, ranks=[0, 1])
        for batch in (tensors[:3], tensors[3:]):
            writer.execute(batch, shapes=dict.fromkeys(batch, "[2, 3]"))
        writer.now_us += 30_000
    return writer


def test_a_tensor_that_is_never_executed_again_keeps_its_place(tmp_path: Path) -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.stalled"])
    for _ in range(40):
        writer.negotiate(["allreduce.a"])
        writer.execute(["allreduce.a"])
    path = tmp_path / "timeline.json"
    path.write_text(writer.text())
    parts = Read(path, rows_at_once=16)
    assert len(parts.parts) == 1
    assert_same(parts, understood(parse_plain(path.read_bytes())))


def test_a_tensor_that_is_named_late_is_no_matter_for_parts(tmp_path: Path) -> None:
    records = json.loads(training(20).text())
    naming = [one for one in records if one["ph"] == "M"]
    timed = [one for one in records if one["ph"] != "M"]
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(timed + naming))
    with pytest.raises(NotInPartsError):
        Read(path, rows_at_once=50)


_NAMES = ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MPI_ALLREDUCE", "NEGOTIATE_BARRIER", "SCAN")
_EVENTS = st.one_of(
    st.tuples(st.just("B"), st.sampled_from(_NAMES)),
    st.tuples(st.just("E"), st.sampled_from(["", '{"dtype": "float32", "shape": "[2]"}'])),
    st.tuples(st.just("E"), st.just("")),
    st.tuples(st.just("X"), st.sampled_from("012")),
    st.tuples(st.just("i"), st.just("CYCLE_START")),
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), _EVENTS, st.integers(0, 2000)), max_size=80),
    st.integers(1, 12),
)
def test_any_order_of_records_means_the_same_in_parts(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[int, tuple[str, str], int]],
    rows_at_once: int,
) -> None:
    names = ("allreduce.a", "barrier.b", "join.c", "allreduce.a")
    records: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in enumerate(names, 1)
    ]
    now = 0
    for pid, (kind, text), after_us in events:
        now += after_us
        record: dict[str, Any] = {"ph": kind, "ts": now, "pid": pid + 1}
        if kind == "E":
            record |= {"args": json.loads(text)} if text else {}
        else:
            record["name"] = text
        records.append(record)
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(records))
    try:
        parts = Read(path, rows_at_once=rows_at_once, chunk_bytes=64)
    except NotInPartsError:
        return
    assert_same(parts, understood(parse_plain(path.read_bytes())))
