import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text import text_chunks
from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.horovod_timeline import parse_plain, read_raw
from tests.builders.places import RECORDINGS
from tests.builders.timeline_reference import rows

RECORDING = RECORDINGS / "12_dynamic_b_started_midop.json"
CONTENT = RECORDING.read_bytes()


def everything(content: bytes, chunk_bytes: int) -> tuple[bytes, Chunks]:
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    text = b""
    while not chunks.final:
        chunks.more()
        text += chunks.text(0, chunks.end).encode("latin-1")
        assert not chunks.data[chunks.end : chunks.end + 64].any()
        chunks.forget(chunks.end)
    assert chunks.offset == len(text)
    return text, chunks


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000, 1 << 20])
def test_plain_and_gzip_give_the_same_text(chunk_bytes: int) -> None:
    assert everything(CONTENT, chunk_bytes)[0] == CONTENT
    text, chunks = everything(gzip.compress(CONTENT), chunk_bytes)
    assert text == CONTENT
    assert (chunks.compression, chunks.broken) == ("gzip", "")


def test_several_gzip_members_and_padding_after_them() -> None:
    text, chunks = everything(gzip.compress(b"[1") + gzip.compress(b",2]") + bytes(100), 1000)
    assert text == b"[1,2]"
    assert chunks.broken == ""


def test_a_cut_gzip_file_gives_what_there_is_and_says_so() -> None:
    packed = gzip.compress(CONTENT)
    raw = parse_plain(packed[: len(packed) // 2])
    assert 0 < sum(raw.num_records.values()) < 40
    assert raw.damage.places[-1].what == "the gzip data ends early"
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    assert "gzip data is damaged" in parse_plain(bytes(flipped)).damage.places[-1].what


PACKERS: dict[str, Callable[[bytes], bytes]] = {"xz": lzma.compress, "bzip2": bz2.compress}


@pytest.mark.parametrize("name", sorted(PACKERS))
def test_xz_and_bzip2_give_the_text_up_to_where_it_is_cut(name: str) -> None:
    lines = b"".join(b"%d,%d\n" % (number, number**5 % 9973) for number in range(400_000))
    packed = PACKERS[name](lines)
    text, chunks = everything(packed, 1 << 20)
    assert (text, chunks.compression, chunks.broken) == (lines, name, "")
    text, chunks = everything(packed[: len(packed) // 2], 1 << 20)
    assert len(text) > len(lines) // 4
    assert lines.startswith(text)
    assert chunks.broken == f"the {name} data ends early"
    flipped = packed[: len(packed) // 2] + bytes(1000)
    assert f"the {name} data is damaged" in everything(flipped, 1 << 20)[1].broken


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def test_zstd_files() -> None:
    packed = zstd(CONTENT)
    raw = parse_plain(packed)
    assert rows(raw) == rows(parse_plain(CONTENT))
    assert raw.layout.compression == "zstd"
    assert "zstd data is damaged" in parse_plain(packed[:8] + b"\xff" * 40).damage.places[-1].what


def test_a_cut_zstd_file_gives_what_there_is_and_says_so(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "zstd") as stream:
        stream.write(CONTENT)
        stream.flush()
        stream.write(b"x" * 1000)
        stream.flush()
        packed = sink.getvalue()
    raw = parse_plain(packed[:-3])
    assert rows(raw) == rows(parse_plain(CONTENT))
    assert raw.damage.places[-1].what == "the zstd data ends early"
    path = tmp_path / "cut.json.zst"
    path.write_bytes(packed[:20])
    with pytest.raises(UnreadableInputError, match="the zstd data ends early"):
        read_raw(path)


@pytest.mark.heavy
@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_compressed_data_that_is_cut_anywhere_is_reported(pack: Callable[[bytes], bytes]) -> None:
    varied = b"".join(b"%d " % (number * 7919 % 100_003) for number in range(60_000))
    for content in (b"", b"x", b"y" * 400_000, varied):
        half = len(content) // 2
        members = [pack(content[:half]), pack(content[half:])]
        packed = b"".join(members)
        whole = everything(packed, 1 << 20)
        assert whole[0] == (content or b"\n") and not whole[1].broken
        cuts = {*range(8, 60), *range(60, len(packed), 4999), len(packed) - 9, len(packed) - 1}
        for length in cuts & set(range(len(packed))):
            text, chunks = everything(packed[:length], 1 << 20)
            assert content.startswith(text) or text == b"\n"
            at_border = length == len(members[0])
            assert bool(chunks.broken) != at_border, length


@pytest.mark.heavy
def test_zstd_data_gives_all_that_was_decoded_before_the_cut() -> None:
    varied = b"".join(b"%d " % (number * 7919 % 100_003) for number in range(300_000))
    packed = zstd(varied)
    text, chunks = everything(packed[:-1], 1 << 20)
    assert chunks.broken == "the zstd data ends early"
    # One block of zstd at most: those before it are all given.
    assert len(varied) - len(text) <= 1 << 17


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_byte_order_marks(encoding: str) -> None:
    text = CONTENT.decode()
    marked = text if encoding in ("utf-16", "utf-8-sig") else "\ufeff" + text
    raw = parse_plain(marked.encode(encoding))
    assert rows(raw) == rows(parse_plain(CONTENT))
    assert raw.layout.encoding == ("utf-8" if encoding == "utf-8-sig" else "utf-16")


def test_progress_ends_at_the_size_of_the_file() -> None:
    seen: list[tuple[int, int]] = []
    chunks = Chunks(
        io.BytesIO(CONTENT * 100),
        len(CONTENT) * 100,
        progress=lambda done, total: seen.append((done, total)),
    )
    while not chunks.final:
        chunks.more()
    assert seen[-1] == (len(CONTENT) * 100, len(CONTENT) * 100)
    assert seen == sorted(seen)


def test_a_byte_is_found_in_a_window_of_any_size() -> None:
    content = b"x" * 200_000 + b"{" + b"y" * 100
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=1 << 20)
    chunks.more()
    assert chunks.find(ord("{"), 0) == chunks.find(ord("{"), 200_000) == 200_000
    assert chunks.find(ord("{"), 200_001) == chunks.find(ord("z"), 0) == chunks.end


def zipped(head: bytes, size: int, tail: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.open(out, "wb", compresslevel=9) as file:
        file.write(head)
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
        file.write(tail)
    return out.getvalue()


@pytest.mark.heavy
def test_zeros_without_end_are_not_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_chunks, "MOST_ZEROS", 5 << 20)
    for content in (zipped(b"head", 50 << 20, b"tail"), b"head" + bytes(50 << 20) + b"tail"):
        text, chunks = everything(content, 1 << 20)
        assert text.startswith(b"head")
        assert not text.endswith(b"tail")
        assert len(text) < 8 << 20
        assert chunks.broken.startswith("more than 1 GB of zero bytes")
    text, chunks = everything(b"head" + bytes(4 << 20) + b"tail", 1 << 20)
    assert text.endswith(b"tail")
    assert chunks.broken == ""


@pytest.mark.heavy
def test_a_small_file_does_not_become_an_endless_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_chunks, "_ALWAYS_BYTES", 3 << 20)
    packed = gzip.compress(b"all lines of it are alike\n" * 1_000_000)
    text, chunks = everything(packed, 1 << 20)
    assert text.startswith(b"all lines")
    assert 1 << 20 < len(text) < 20_000_000 < len(gzip.decompress(packed))
    assert chunks.broken == "it unpacks to more than 200 times its size"
