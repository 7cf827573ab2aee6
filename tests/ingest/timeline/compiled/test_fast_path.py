import io
import json
import random
import threading
from typing import Any

import pytest

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.horovod_timeline import parse_plain
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from tests.builders.timeline_reference import assert_same

pytest.importorskip("numba", reason="the fast path needs numba")

from hvdprof.ingest.timeline.compiled import fast_path
from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
from hvdprof.ingest.timeline.compiled.kernel_records import Records
from tests.builders.places import RECORDINGS


class Fills:
    """The threads that parsed, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        fill = Records.fill

        def spy(records: Records, *part: Any) -> int:
            self.threads.append(threading.current_thread().name)
            return fill(records, *part)

        monkeypatch.setattr(Records, "fill", spy)

    @property
    def num_ahead(self) -> int:
        return sum(thread != threading.current_thread().name for thread in self.threads)


def parse(content: bytes, chunk_bytes: int, **options: Any) -> RawTimeline:
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, FastPairing(**options)).read()


@pytest.mark.heavy
def test_a_regular_file_is_parsed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    one = json.loads((RECORDINGS / "07_mpi_fp16.json").read_text())
    timed = [record for record in one if record["ph"] != "M"]
    content = json.dumps(one + timed * 30).encode()
    fills = Fills(monkeypatch)
    fast = parse(content, 20_000)
    assert fills.num_ahead > 10
    assert_same(fast, parse_plain(content))


@pytest.mark.heavy
def test_records_that_fill_the_room_before_the_window_ends_are_all_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fast_path, "_MOST_RECORDS", 7)
    one = json.loads((RECORDINGS / "07_mpi_fp16.json").read_text())
    content = json.dumps(one * 3).encode()
    fills = Fills(monkeypatch)
    assert_same(parse(content, 1 << 20), parse_plain(content))
    assert fills.num_ahead > 10


@pytest.mark.heavy
def test_what_is_new_is_learned_before_more_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        {"ph": kind, "name": f"A{number}", "ts": 1, "pid": number}
        for number in range(300)
        for kind in "BE"
    ]
    content = json.dumps(events * 2).encode()
    plain = parse_plain(content)
    for chunk_bytes in (100, 300, 1000):
        assert_same(parse(content, chunk_bytes), plain)


@pytest.mark.heavy
def test_what_is_learned_counts_from_there_on() -> None:
    """A pid that is named anew has a new code from there on."""
    events: list[dict[str, Any]] = []
    for number in range(300):
        args = {"name": f"tensor {number % 7}"}
        events += [{"ph": "B", "name": "A", "ts": 1, "pid": 1}] * 3
        events += [{"ph": "E", "ts": 2, "pid": 1}] * 3
        if number % 5 == 0:
            events.append({"name": "process_name", "ph": "M", "pid": 1, "args": args})
    content = json.dumps(events).encode()
    plain = parse_plain(content)
    for chunk_bytes in (150, 400, 900, 3000):
        assert_same(parse(content, chunk_bytes), plain)


@pytest.mark.heavy
def test_damage_in_a_large_file_is_the_same() -> None:
    numbers = random.Random(7)
    one = json.loads((RECORDINGS / "07_mpi_fp16.json").read_text())
    content = bytearray(json.dumps(one * 10).encode())
    for _ in range(60):
        place = numbers.randrange(len(content))
        content[place : place + numbers.choice((1, 3, 60))] = numbers.randbytes(3)
    plain = parse_plain(bytes(content))
    assert plain.damage.num_places > 10
    for chunk_bytes in (1000, 5000, 60_000):
        assert_same(parse(bytes(content), chunk_bytes), plain)


def test_an_error_of_who_takes_the_rows_comes_out() -> None:
    def refuse(*tables: object) -> None:
        raise OSError("the disk is full")

    content = json.dumps([{"ph": "E", "ts": 2, "pid": 1}] * 5000).encode()
    with pytest.raises(OSError, match="disk is full"):
        parse(content, 3000, offer=refuse, row_group=100)
