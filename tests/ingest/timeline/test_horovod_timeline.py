import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.timeline.horovod_timeline import (
    TimelineFile,
    parse_timeline,
    read_timeline_file,
)
from hvdprof.model.notes import texts
from tests.builders.places import CORPUS, RECORDINGS, needs_corpus
from tests.builders.timeline_rows import rows_of

NAMES = (
    '{"name": "process_name", "ph": "M", "pid": 0, '
    '"args": {"start_time_since_epoch_in_micros":1000}},\n'
    '{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "allreduce.a"}},\n'
    '{"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "allreduce.b"}},\n'
)


def event(ph: str, ts: int, pid: int, name: str = "", **args: str) -> str:
    record: dict[str, object] = {"ph": ph}
    record |= {"name": name} if name else {}
    record |= {"ts": ts, "pid": pid}
    return json.dumps(record | ({"args": args} if args else {}))


def parsed(*events: str, end: str = "]") -> TimelineFile:
    return parse_timeline("[\n" + NAMES + ",".join(events) + end)


def problems_of(file: TimelineFile) -> list[str]:
    return [
        f"{row.phase} {row.activity} {row.tensor} use {row.occurrence} batch {row.fusion_id} "
        f"at {row.start_us} for {row.dur_us} bytes {row.size_bytes}"
        for row in rows_of(file)
    ]


def test_a_fused_execution_of_two_tensors_is_one_batch() -> None:
    file = parsed(
        event("B", 10, 1, "NEGOTIATE_ALLREDUCE"),
        event("B", 11, 2, "NEGOTIATE_ALLREDUCE"),
        event("E", 12, 1),
        event("E", 12, 2),
        event("B", 20, 1, "ALLREDUCE"),
        event("B", 20, 2, "ALLREDUCE"),
        event("B", 21, 1, "GLOO_ALLREDUCE"),
        event("B", 22, 2, "GLOO_ALLREDUCE"),
        event("E", 30, 1),
        event("E", 30, 2),
        event("E", 31, 1, dtype="float16", shape="[10, 3]"),
        event("E", 32, 2, dtype="float16", shape="[]"),
        event("B", 40, 1, "ALLREDUCE"),
        event("E", 41, 1, dtype="float32", shape="[2]"),
    )
    assert problems_of(file) == [
        "negotiation NEGOTIATE_ALLREDUCE allreduce.a use 0 batch -1 at 10 for 2 bytes None",
        "negotiation NEGOTIATE_ALLREDUCE allreduce.b use 0 batch -1 at 11 for 1 bytes None",
        "operation ALLREDUCE allreduce.a use 0 batch 0 at 20 for 11 bytes 60",
        "operation ALLREDUCE allreduce.b use 0 batch 0 at 20 for 12 bytes 2",
        "activity GLOO_ALLREDUCE allreduce.a use 0 batch 0 at 21 for 9 bytes None",
        "activity GLOO_ALLREDUCE allreduce.b use 0 batch 0 at 22 for 8 bytes None",
        "operation ALLREDUCE allreduce.a use 1 batch 1 at 40 for 1 bytes 8",
    ]
    assert file.problems == ()


def test_broadcasts_in_a_row_are_never_one_batch() -> None:
    file = parsed(event("B", 1, 1, "BROADCAST"), event("B", 1, 2, "BROADCAST"))
    assert [row.fusion_id for row in rows_of(file)] == [0, 1]


def test_adasum_nests_one_deeper() -> None:
    file = parsed(
        event("B", 1, 1, "ADASUM"),
        event("B", 2, 1, "MPI_ADASUM_ALLREDUCE"),
        event("B", 3, 1, "MPI_ALLREDUCE"),
        event("E", 4, 1),
        event("E", 6, 1),
        event("E", 9, 1, dtype="float32", shape="[1]"),
    )
    assert [(row.activity, row.dur_us, row.collective) for row in rows_of(file)] == [
        ("ADASUM", 8, "ADASUM"),
        ("MPI_ADASUM_ALLREDUCE", 4, "ADASUM"),
        ("MPI_ALLREDUCE", 1, "ADASUM"),
    ]


def test_ticks_and_cycles_are_marks() -> None:
    cycle = '{"ph": "i", "name": "CYCLE_START", "ts": 4, "s": "g"}'
    file = parsed(
        event("B", 1, 1, "NEGOTIATE_ALLREDUCE"), event("X", 2, 1, "1"), cycle, event("E", 5, 1)
    )
    marks = [row for row in rows_of(file) if row.phase == "mark"]
    assert [(row.activity, row.rank, row.tensor, row.dur_us) for row in marks] == [
        ("1", 1, "allreduce.a", 0),
        ("CYCLE_START", 0, "", 0),
    ]


@pytest.mark.parametrize("end", ["]", "", ",", ",\n", "]\n"])
def test_the_end_of_the_array_does_not_matter(end: str) -> None:
    events = (event("B", 1, 1, "ALLREDUCE"), event("E", 3, 1, dtype="uint8", shape="[7]"))
    assert problems_of(parsed(*events, end=end)) == problems_of(parsed(*events))
    assert parsed(*events, end=end).problems == ()


def test_what_never_ends_has_no_length() -> None:
    file = parsed(event("B", 1, 1, "ALLREDUCE"))
    assert [row.dur_us for row in rows_of(file)] == [-1]
    assert texts(file.problems) == (
        "1 event never ends (the recording stopped before, or lost the end)",
    )


def test_a_lost_end_does_not_spoil_the_uses_after_it() -> None:
    file = parsed(
        event("B", 1, 1, "ALLREDUCE"),
        event("B", 5, 1, "NEGOTIATE_ALLREDUCE"),
        event("E", 6, 1),
        event("B", 7, 1, "ALLREDUCE"),
        event("E", 9, 1),
    )
    assert [(row.phase, row.dur_us) for row in rows_of(file)] == [
        ("operation", -1),
        ("negotiation", 1),
        ("operation", 2),
    ]


def test_ends_of_barriers_and_joins_are_no_problem_others_are() -> None:
    join = '{"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "join.noname"}}'
    assert parsed(join, event("E", 1, 3, dtype="int32", shape="[]")).problems == ()
    assert texts(parsed(event("E", 1, 1)).problems) == (
        "1 event ends without a beginning (the recording began in the middle)",
    )


@pytest.mark.parametrize("text", ["", "[", "[]", "garbage", "{}", '"text"', "[1, 2]"])
def test_files_without_events(text: str) -> None:
    file = parse_timeline(text)
    assert len(file.rows) == 0
    assert "it holds no event" in texts(file.problems)


@pytest.mark.parametrize(
    "record",
    ['{"ph": "B", "pid": 1}', '{"ph": "E", "ts": "x", "pid": 1}', '{"ph": "?"}', '{"a": 1}'],
)
def test_damaged_records_are_counted(record: str) -> None:
    (damage,) = (one for one in texts(parsed(record).problems) if "damaged" in one)
    offset = len("[\n" + NAMES)
    assert damage == (
        f"damaged places left out: 1 ({len(record)} B), "
        f"a record with unusable fields at byte {offset}"
    )


@pytest.mark.slow
@given(st.data())
def test_a_file_cut_anywhere_keeps_what_came_before(data: st.DataObject) -> None:
    text = (RECORDINGS / "12_dynamic_b_started_midop.json").read_text()
    whole = parse_timeline(text)
    cut = parse_timeline(text[: data.draw(st.integers(0, len(text)))])
    starts = [(row.activity, row.tensor, row.start_us) for row in rows_of(whole)]
    intact = [(row.activity, row.tensor, row.start_us) for row in rows_of(cut)]
    assert intact == starts[: len(intact)]


@pytest.mark.slow
@given(st.text(max_size=200) | st.text(alphabet='[]{}",:phBEXiM 01', max_size=200))
def test_no_text_is_a_traceback(text: str) -> None:
    parse_timeline(text)
    parsed(text)


def test_a_compressed_file_says_the_same(tmp_path: Path) -> None:
    plain = RECORDINGS / "07_mpi_fp16.json"
    packed = tmp_path / "timeline.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert rows_of(read_timeline_file(packed)) == rows_of(read_timeline_file(plain))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x7fELF\0\0\0 not json", "it holds no record of a Horovod timeline: it is binary data"),
        (b"a line of text\n", "it holds no record of a Horovod timeline: it is other text"),
    ],
)
def test_a_file_that_is_no_timeline_gives_a_warning_and_no_error(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "timeline.json"
    path.write_bytes(content)
    file = read_timeline_file(path)
    assert texts(file.problems) == (problem,)
    assert len(file.rows) == len(file.uses) == len(file.executions) == len(file.steps) == 0


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_timeline_file(tmp_path / "timeline.json")


def test_reading_reports_its_progress() -> None:
    reports: list[tuple[int, int]] = []
    path = RECORDINGS / "07_mpi_fp16.json"
    read_timeline_file(path, progress=lambda done, size: reports.append((done, size)))
    assert reports[-1] == (path.stat().st_size,) * 2


def test_fp16_against_what_the_ranks_measured_themselves() -> None:
    file = read_timeline_file(RECORDINGS / "07_mpi_fp16.json")
    truth = json.loads((RECORDINGS / "07_mpi_fp16.rank0.truth.json").read_text())
    reduced = [row for row in rows_of(file) if row.activity == "ALLREDUCE"]
    assert len(reduced) == 6 * len(truth["steps"])
    for row in reduced:
        name = row.tensor.removeprefix("allreduce.")
        assert row.size_bytes == truth["params"][name][1] // 2
        step = truth["steps"][row.occurrence]
        assert file.epoch_us is not None
        end_us = file.epoch_us + row.start_us + row.dur_us
        assert step["ready"][name] < end_us < step["pre"][1]
    ids = {row.fusion_id for row in reduced}
    assert 8 <= len(ids) <= len(reduced)
    assert file.problems == ()


def test_names_that_are_not_json() -> None:
    file = read_timeline_file(RECORDINGS / "14_gloo_unescaped_names.json")
    used = {row.tensor for row in rows_of(file) if row.phase == "operation"}
    assert len(used) == 7
    assert 'allreduce.quo"te' in used
    assert file.problems == ()


def test_a_timeline_started_in_the_middle_of_an_operation() -> None:
    file = read_timeline_file(RECORDINGS / "12_dynamic_b_started_midop.json")
    assert [row.tensor for row in rows_of(file) if row.phase == "operation"] == [
        "allreduce.inflight",
        *["allreduce.b"] * 3,
    ]
    assert texts(file.problems) == (
        "1 event ends without a beginning (the recording began in the middle)",
        "1 rank tick lies outside of every negotiation",
    )


def test_ranks_are_numbered_within_the_process_set() -> None:
    file = read_timeline_file(RECORDINGS / "17_gloo_process_sets_np3.json")
    ticks = [row.rank for row in rows_of(file) if row.phase == "mark" and "in_0_2" in row.tensor]
    assert sorted(set(ticks)) == [0, 1]


@pytest.mark.slow
@needs_corpus
def test_recordings_of_other_people_are_read_to_their_end() -> None:
    files = sorted((CORPUS / "horovod_timelines").glob("*.json"))
    assert files
    for path in files:
        file = read_timeline_file(path)
        operations = [row for row in rows_of(file) if row.phase == "operation"]
        negotiations = [row for row in rows_of(file) if row.phase == "negotiation"]
        assert len(operations) == len(negotiations) > 0, path.name
        assert file.problems == (), path.name
