import dataclasses
import io
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.horovod_timeline import parse_plain
from hvdprof.ingest.timeline.syntax.parsed_timeline import (
    DEEPEST,
    OPEN,
    RawTimeline,
    Slices,
    stood_at,
)
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from tests.builders.mutants import mutant
from tests.builders.timeline_reference import assert_same, marks, naive, rows, ticks

pytest.importorskip("numba", reason="the fast path needs numba")

from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
from tests.builders.places import CORPUS, RECORDINGS, needs_corpus

SPACINGS: dict[str, dict[str, Any]] = {
    "horovod": {},
    "compact": {"separators": (",", ":")},
    "indented": {"indent": 1},
    "sorted": {"sort_keys": True},
}
NAMES = st.sampled_from(
    ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER", "A", "ABCDEFGH", "a b", "é"]
) | st.text(max_size=9)
TIMES = st.integers(0, 10**14) | st.floats(0, 1e12, allow_nan=False)
PIDS = st.integers(0, 4) | st.sampled_from([10**6, 10**9, 10**12, -3])
ARGS = st.dictionaries(
    st.sampled_from(["dtype", "shape", "x"]),
    st.sampled_from(["float32", "[64, 784]", "[]", "}", '"', 7, 1.5, None, {"a": [1]}]),
    max_size=3,
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"ph": st.just("B"), "name": NAMES, "ts": TIMES, "pid": PIDS}),
    st.fixed_dictionaries({"ph": st.just("E"), "ts": TIMES, "pid": PIDS}, optional={"args": ARGS}),
    st.fixed_dictionaries(
        {
            "ph": st.just("X"),
            "name": st.integers(0, 10**9).map(str),
            "ts": TIMES,
            "pid": PIDS,
            "dur": st.just(0),
        }
    ),
    st.fixed_dictionaries({"ph": st.just("i"), "name": NAMES, "ts": TIMES, "s": st.just("g")}),
)


def parse_fast(content: bytes, chunk_bytes: int = 1 << 20) -> RawTimeline:
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, FastPairing()).read()


@pytest.mark.slow
@pytest.mark.parametrize("spacing", SPACINGS)
@given(
    events=st.lists(EVENTS, max_size=40),
    repeats=st.integers(1, 3),
    chunk_bytes=st.sampled_from([100, 500, 1 << 20]),
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_result_is_that_of_json_and_a_naive_stack(
    spacing: str, events: list[dict[str, Any]], repeats: int, chunk_bytes: int
) -> None:
    text = json.dumps(events * repeats, **SPACINGS[spacing])
    slices, seen_ticks, seen_marks = naive(text)
    fast = parse_fast(text.encode(), chunk_bytes)
    assert rows(fast) == slices
    assert ticks(fast) == seen_ticks
    assert marks(fast) == seen_marks
    assert fast.damage.num_places == 0
    assert_same(fast, parse_plain(text.encode()))


@given(
    name=st.sampled_from(["12_dynamic_b_started_midop.json", "14_gloo_unescaped_names.json"]),
    cut=st.integers(0, 5000),
    chunk_bytes=st.integers(1, 400),
)
@settings(deadline=None)
def test_cuts_and_borders_anywhere_change_nothing(name: str, cut: int, chunk_bytes: int) -> None:
    content = (RECORDINGS / name).read_bytes()[:cut]
    assert_same(parse_fast(content, chunk_bytes), parse_plain(content))


@pytest.mark.heavy
def test_borders_of_every_width_around_a_record() -> None:
    content = (RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes()
    whole = parse_plain(content)
    for chunk_bytes in range(1, 201):
        assert_same(parse_fast(content, chunk_bytes), whole)


@pytest.mark.slow
def test_more_rows_strings_and_pids_than_there_is_room_for_at_first() -> None:
    events = [
        {"ph": "B", "name": f"NAME_{i % 3000}", "ts": i, "pid": i % 2500} for i in range(70_000)
    ]
    events += [
        {"ph": "E", "ts": i, "pid": i % 2500, "args": {"shape": f"[{i % 5000}]"}}
        for i in range(70_000)
    ]
    content = json.dumps(events).encode()
    fast = parse_fast(content)
    assert len(fast.slices) == 70_000
    assert fast.num_records["E"] == 70_000
    assert len(fast.args) == 5000
    assert_same(fast, parse_plain(content))


def test_begins_without_end_do_not_nest_for_ever() -> None:
    events = [{"ph": "B", "name": "A", "ts": i, "pid": 1} for i in range(3 * DEEPEST)]
    fast = parse_fast(json.dumps(events).encode())
    assert int(fast.slices.depth.max()) == DEEPEST - 1
    assert_same(fast, parse_plain(json.dumps(events).encode()))


@pytest.mark.heavy
@needs_corpus
def test_public_recordings_are_the_same_on_both_paths() -> None:
    files = sorted((CORPUS / "horovod_timelines").glob("*.json"))
    assert files
    for path in files:
        fast = parse_fast(path.read_bytes())
        assert fast.damage.num_places == 0, path.name
        assert_same(fast, parse_plain(path.read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutants_are_the_same_on_both_paths(seed: int) -> None:
    numbers = random.Random(seed)
    seeds = [path.read_bytes()[:5000] for path in sorted(RECORDINGS.glob("[01]*[a-z].json"))]
    for _ in range(150):
        content = mutant(numbers, numbers.choice(seeds))
        fast = parse_fast(content, numbers.choice((61, 400, 1 << 20)))
        assert_same(fast, parse_plain(content))


def first_rows(tables: tuple[Any, ...], record: int) -> tuple[Any, ...]:
    """Copies of the rows of slices, ticks and marks that stand before a record."""
    found = []
    for table in tables:
        order = stood_at(table) if isinstance(table, Slices) else table.order
        columns = (getattr(table, column.name) for column in dataclasses.fields(table))
        found.append(type(table)(*(column[order < record].copy() for column in columns)))
    return tuple(found)


@pytest.mark.heavy
def test_rows_taken_early_equal_the_rows_at_the_end() -> None:
    one = json.loads((RECORDINGS / "07_mpi_fp16.json").read_text())
    open_row = {"ph": "B", "name": "NEVER", "ts": 0, "pid": 99}
    content = json.dumps(one * 20 + [open_row] + one * 20).encode()
    parts: list[Any] = []

    def take_what_has_ended(slices: Slices, *others: Any) -> int:
        is_open = np.flatnonzero(slices.end_order == OPEN)
        needed = int(stood_at(slices)[is_open[0]]) if len(is_open) else 10**9
        parts.append(first_rows((slices, *others[:2]), needed))
        return needed

    pairing = FastPairing(take_what_has_ended, row_group=1000)
    drained = Reader(Chunks(io.BytesIO(content), len(content)), pairing).read()
    whole = parse_fast(content)
    assert parts
    assert drained.num_records == whole.num_records
    for table in (0, 1, 2):
        ours = [part[table] for part in parts]
        ours.append((drained.slices, drained.ticks, drained.marks)[table])
        theirs = (whole.slices, whole.ticks, whole.marks)[table]
        order = "begin_order" if table == 0 else "order"
        place = np.argsort(np.concatenate([getattr(part, order) for part in ours]), kind="stable")
        for column in dataclasses.fields(theirs):
            together = np.concatenate([getattr(part, column.name) for part in ours])[place]
            assert np.array_equal(together, getattr(theirs, column.name)), column.name


@pytest.mark.slow
def test_every_cut_of_a_recording_is_the_same_on_both_paths() -> None:
    content = (RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes()
    for cut in range(len(content) + 1):
        plain = parse_plain(content[:cut])
        assert_same(parse_fast(content[:cut], 300), plain)
