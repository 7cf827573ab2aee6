import io
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.horovod_timeline import parse_plain
from hvdprof.ingest.timeline.syntax.pairing import PlainPairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, ORPHAN, Damage, RawTimeline
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from tests.builders.places import RECORDINGS
from tests.builders.timeline_reference import assert_same, marks, rows, ticks

HEADER = (
    '{"name": "process_name", "ph": "M", "pid": 0, "args": '
    '{"start_time_since_epoch_in_micros":1795211495863127}},\n'
)
NAME = '{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "allreduce.a"}},\n'
BEGIN = '{"ph": "B", "name": "ALLREDUCE", "ts": 10, "pid": 1}'
END = '{"ph": "E", "ts": 15, "pid": 1, "args": {"dtype": "float32", "shape": "[2]"}}'
SLICE = (1, "ALLREDUCE", 10, 5, 0, 0, 1, {"dtype": "float32", "shape": "[2]"})


def test_a_begin_and_its_end_are_one_row() -> None:
    raw = parse_plain(f"[\n{HEADER}{NAME}{BEGIN},{END}]".encode())
    assert rows(raw) == [SLICE]
    assert raw.tensors[raw.slices.pid[0]] == "allreduce.a"
    assert raw.epoch_us == 1795211495863127
    assert raw.range_us == (10, 15)
    assert raw.num_records == {"M": 2, "B": 1, "E": 1, "X": 0, "i": 0, "other": 0}


def test_orphans_and_open_rows_are_flagged() -> None:
    raw = parse_plain(f"[{END},{BEGIN}".encode())
    assert raw.slices.begin_order.tolist() == [ORPHAN, 1]
    assert raw.slices.end_order.tolist() == [0, OPEN]
    assert raw.slices.start_us.tolist() == [15, 10]


def test_a_negotiation_starts_anew() -> None:
    negotiation = BEGIN.replace("ALLREDUCE", "NEGOTIATE_ALLREDUCE")
    raw = parse_plain(f"[{BEGIN},{negotiation},{END},{END}]".encode())
    assert raw.slices.depth.tolist() == [0, 0, 0]
    assert raw.slices.end_order.tolist() == [OPEN, 2, 3]


@pytest.mark.parametrize(
    ("junk", "what"),
    [
        (b"\0" * 300, "not a record"),
        (b"\xff\xfe\x80", "not a record"),
        (b'{"ph": "B", "name": "ALLR', "not a record"),
        (b'{"ph": "B", "name": 3, "ts": 1, "pid": 1}', "a record with unusable fields"),
        (b'{"ph": "B", "name": "a", "ts": NaN, "pid": 1}', "a record with unusable fields"),
        (b'{"ph": "E", "ts": ' + b"9" * 5000 + b', "pid": 1}', "not a record"),
        (b'{"ph": "E", "a": ' + b"[" * 100_000 + b"}", "not a record"),
    ],
)
def test_damage_costs_itself_alone(junk: bytes, what: str) -> None:
    content = b"[" + BEGIN.encode() + b",\n" + junk + b",\n" + END.encode() + b"]"
    raw = parse_plain(content)
    assert raw.slices.dur_us.tolist() == [5]
    (place,) = raw.damage.places
    assert place.what == what
    assert place.offset == content.index(junk, len(BEGIN))
    assert len(junk) <= place.length <= len(junk) + 2
    assert raw.damage.num_bytes == place.length
    # The damaged place took a number: begin and end did not stand side by side.
    assert raw.slices.end_order.tolist() == [2]


@given(cut=st.integers(0, 2000))
@settings(deadline=None)
def test_a_cut_costs_only_the_record_it_goes_through(cut: int) -> None:
    whole = parse_plain((RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes())
    content = (RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes()[:cut]
    raw = parse_plain(content)
    assert raw.slices.start_us.tolist() == whole.slices.start_us.tolist()[: len(raw.slices)]
    assert ticks(raw) == ticks(whole)[: len(raw.ticks)]
    assert raw.damage.num_places <= 1
    num_complete = content.count(b"}") - content.count(b'"}}') - content.count(b"]}")
    assert sum(raw.num_records.values()) <= num_complete
    if raw.damage.num_places:
        (place,) = raw.damage.places
        assert place.offset + place.length == len(content)
        assert place.what == "cut off"


def test_crlf_lines_and_trailing_commas() -> None:
    raw = parse_plain(f"[\r\n{BEGIN},\r\n{END},\r\n".encode())
    assert rows(raw) == [SLICE]
    assert raw.damage.num_places == 0


def test_two_recordings_in_one_file_keep_their_tensors_apart() -> None:
    other = NAME.replace("allreduce.a", "allreduce.b")
    raw = parse_plain(f"[\n{HEADER}{NAME}{BEGIN},{END}][\n{HEADER}{other}{BEGIN},{END}]".encode())
    assert raw.pids == (1, 1)
    assert raw.tensors == ("allreduce.a", "allreduce.b")
    assert raw.slices.pid.tolist() == [0, 1]
    assert [order for order, _ in raw.epochs] == [0, 2]
    assert raw.damage.num_places == 0


def test_names_that_horovod_did_not_escape() -> None:
    raw = parse_plain((RECORDINGS / "14_gloo_unescaped_names.json").read_bytes())
    assert 'allreduce.quo"te' in raw.tensors
    assert "allreduce.back\\slash" in raw.tensors
    assert "allreduce.unicode_é" in raw.tensors
    assert raw.damage.num_places == 0


def test_bytes_that_are_not_utf8_stay_readable() -> None:
    raw = parse_plain(b"[\n" + NAME.encode().replace(b"allreduce.a", b"a\xff\xc3\xa9") + b"]")
    assert raw.tensors == ("a\\xffé",)


def test_the_array_of_an_object_is_read() -> None:
    content = json.dumps({"traceEvents": json.loads(f"[{BEGIN},{END}]"), "displayTimeUnit": "ms"})
    raw = parse_plain(content.encode())
    assert rows(raw) == [SLICE]
    assert raw.layout.in_object
    assert raw.damage.num_places == 0


def test_cycle_marks_have_no_pid() -> None:
    raw = parse_plain(b'[{"ph": "i", "name": "CYCLE_START", "ts": 7.9, "s": "g"}]')
    assert marks(raw) == [("CYCLE_START", 7, 0)]


def test_a_huge_record_is_damage_and_what_follows_is_read() -> None:
    huge = b'{"ph": "B", "name": "' + b"x" * (5 << 20) + b'", "ts": 1, "pid": 1}'
    raw = parse_plain(b"[" + huge + b"," + BEGIN.encode() + b"," + END.encode() + b"]")
    assert raw.slices.dur_us.tolist() == [5]
    assert raw.damage.places == (Damage(1, len(huge) + 1, "not a record"),)


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b" [\n\n]", b"\n"])
def test_empty_files_have_no_record_and_no_damage(content: bytes) -> None:
    raw = parse_plain(content)
    assert len(raw.slices) == 0
    assert raw.range_us is None
    assert raw.damage.num_places == 0


@given(
    content=st.binary(max_size=300)
    | st.text(alphabet='[]{}",:phBEXiM 01\\n', max_size=300).map(str.encode),
    chunk_bytes=st.integers(1, 64),
)
@settings(deadline=None)
def test_no_content_is_an_error_and_borders_change_nothing(
    content: bytes, chunk_bytes: int
) -> None:
    content = f"[{BEGIN},".encode() + content
    assert_same(parse_plain(content, chunk_bytes=chunk_bytes), parse_plain(content))


class RecordByRecord(PlainPairing):
    """Takes nothing quickly: the reader decodes every record as JSON."""

    def scan(self, chunks: Chunks, start: int, order: int) -> tuple[int, int]:
        return start, order


@pytest.mark.parametrize(
    "record",
    [
        BEGIN,
        END,
        '{"ph": "E", "ts": 007, "pid": 1}',
        '{"ph": "E", "ts": 2, "pid": 1, "args": {dtype}}',
        '{"ph": "E", "ts": 2, "pid": 1, "args": {"dtype": "\\u0041"}}',
        '{"ph": "B", "name": "é", "ts": 2, "pid": 1}',
        '{"ph": "B", "name": "a\\"b", "ts": 2, "pid": 1}',
        '{"ph": "B", "name": "a", "ts": 2, "pid": 9}',
        '{"ph": "B", "name": "a", "ts": 99999999999999999999, "pid": 1}',
        '{"ph": "X", "name": "3", "ts": 2, "pid": 1, "dur": 0}',
        '{"ph": "X", "name": "3", "ts": 2, "pid": 1, "dur": 7}',
        '{"ph": "i", "name": "CYCLE_START", "ts": 2, "s": "g"}',
        NAME.replace("allreduce.a", "allreduce.b").strip(",\n"),
    ],
)
def test_what_is_taken_quickly_is_what_json_says(record: str) -> None:
    content = f"[\n{HEADER}{NAME}{BEGIN},{END},{record},{BEGIN}, {END},{record}]".encode()
    assert_same(parse_plain(content), _record_by_record(content, 1 << 20))


def test_damage_among_records_that_are_taken_quickly_is_the_same() -> None:
    numbers = random.Random(3)
    content = bytearray((RECORDINGS / "07_mpi_fp16.json").read_bytes())
    content += (RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes()
    for _ in range(40):
        place = numbers.randrange(len(content))
        content[place : place + numbers.choice((1, 3, 60))] = numbers.randbytes(3)
    expected = _record_by_record(bytes(content), 1 << 20)
    assert expected.damage.num_places > 10
    assert len(expected.slices) > 100
    for chunk_bytes in (200, 5000, 1 << 20):
        assert_same(parse_plain(bytes(content), chunk_bytes=chunk_bytes), expected)


def _record_by_record(content: bytes, chunk_bytes: int) -> RawTimeline:
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, RecordByRecord()).read()
