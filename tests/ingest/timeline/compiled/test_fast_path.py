import io
import json
import random
import threading
from typing import Any

import pytest

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.plain_path import parse_plain
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from tests.builders.timeline_reference import assert_same

pytest.importorskip("numba", reason="the fast path needs numba")

from hvdprof.ingest.timeline.compiled import fast_path
from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
from hvdprof.ingest.timeline.compiled.kernel_records import Records
from tests.builders.places import RECORDINGS

CONTENT = (RECORDINGS / "12_dynamic_b_started_midop.json").read_bytes()


class Fills:
    """Parts that were parsed, as (thread, from, to, where it ended)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, int, int, int]] = []
        fill = Records.fill

        def spy(records: Records, chunks: Chunks, part: tuple[int, int], *known: Any) -> int:
            after = fill(records, chunks, part, *known)
            self.seen.append((threading.current_thread().name, *part, after))
            return after

        monkeypatch.setattr(Records, "fill", spy)

    @property
    def num_ahead(self) -> int:
        here = threading.current_thread().name
        return sum(thread != here for thread, *_ in self.seen)

    @property
    def num_proven(self) -> int:
        """Parts parsed ahead whose start was where the part before them ended."""
        here = threading.current_thread().name
        starts = {start for thread, start, _, _ in self.seen if thread != here}
        return sum(
            end in starts and after == end for thread, _, end, after in self.seen if thread == here
        )


def parse(content: bytes, chunk_bytes: int, **options: Any) -> RawTimeline:
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, FastPairing(num_threads=2, **options)).read()


def test_a_regular_file_is_parsed_ahead_and_every_part_is_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = json.loads((RECORDINGS / "07_mpi_fp16.json").read_text())
    timed = [record for record in one if record["ph"] != "M"]
    content = json.dumps(one + timed * 30).encode()
    fills = Fills(monkeypatch)
    fast = parse(content, 20_000)
    assert fills.num_ahead > 10
    assert fills.num_proven >= fills.num_ahead - 2
    assert_same(fast, parse_plain(content))


def test_one_thread_parses_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    fills = Fills(monkeypatch)
    Reader(Chunks(io.BytesIO(CONTENT), len(CONTENT), chunk_bytes=300), FastPairing()).read()
    assert fills.seen
    assert not fills.num_ahead


def test_a_border_at_any_byte_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parse_plain(CONTENT)
    for distance in range(1, 400):
        monkeypatch.setattr(
            fast_path,
            "_likely_border",
            lambda chunks, place, far=distance: place + far if place + far < chunks.end else -1,
        )
        assert_same(parse(CONTENT, 300), plain)


def test_a_border_inside_a_name_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = '}, {"ph": "E", "ts": 7, "pid": 1}, {'.replace('"', "")
    event = {"ph": "B", "name": inner * 8, "ts": 1, "pid": 1}
    content = json.dumps([event, {"ph": "E", "ts": 2, "pid": 1}] * 400).encode()
    fills = Fills(monkeypatch)
    fast = parse(content, 5000)
    assert fills.num_ahead > fills.num_proven
    assert_same(fast, parse_plain(content))


def test_what_is_learned_before_the_border_counts_behind_it() -> None:
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


def test_damage_in_a_large_file_is_the_same_with_two_threads() -> None:
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
