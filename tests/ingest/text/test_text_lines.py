import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load import load_run
from hvdprof.ingest.recognise import Kind, recognise
from hvdprof.ingest.text import text_lines
from hvdprof.ingest.text.text_lines import LONGEST, BrokenEndError, TextBlock, text_blocks
from hvdprof.model.notes import texts
from tests.builders.nccl_log import job

LOG = ("\n".join(job()) + "\nRuntimeError: NCCL error\n").encode()
PACKED: list[Callable[[bytes], bytes]] = [
    bytes,
    gzip.compress,
    lambda text: gzip.compress(text[:99]) + gzip.compress(text[99:]),
    lambda text: bytes(pa.compress(text, codec="zstd", asbytes=True)),
    lambda text: text.decode().encode("utf-16"),
]


def lines_of(path: Path) -> list[str]:
    lines: dict[int, str] = {}
    number = 0
    for block in text_blocks(path):
        for index, place in enumerate(block.places.tolist()):
            lines[number + place] = lines.get(number + place, "") + block.text(index)
        number += int(block.places[-1]) + block.ended
    assert list(lines) == list(range(len(lines)))
    return list(lines.values())


def texts_of(blocks: Iterable[TextBlock]) -> Iterator[str]:
    return (block.text(index) for block in blocks for index in range(len(block)))


@pytest.mark.parametrize("packed", PACKED, ids=["plain", "gzip", "gzip parts", "zstd", "utf-16"])
@pytest.mark.parametrize("chunk_bytes", [1, 100, 1 << 20])
def test_lines_are_the_same_however_they_are_stored(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    packed: Callable[[bytes], bytes],
    chunk_bytes: int,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(packed(LOG))
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
    assert lines_of(path) == LOG.decode().split("\n")[:-1]


def test_long_lines_come_in_pieces_and_keep_their_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n" + b"x" * 200_000 + b"\n\n" + b"y" * 100_000 + b"\nb")
    assert max(map(len, texts_of(text_blocks(path)))) == LONGEST
    assert lines_of(path) == ["a", "x" * 200_000, "", "y" * 100_000, "b"]


def test_a_file_without_any_byte_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert lines_of(tmp_path / "log") == []


@pytest.mark.heavy
def test_a_broken_end_is_reported_after_the_intact_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    packed = gzip.compress(b"".join(b"%d\n" % (number * 7919) for number in range(50_000)))
    path.write_bytes(packed[: len(packed) // 2])
    read = []
    with pytest.raises(BrokenEndError, match="the gzip data ends early"):
        for text in texts_of(text_blocks(path)):
            read.append(text)
    assert len(read) > 10_000
    assert read[:3] == ["0", "7919", "15838"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", PACKED[1:4], ids=["gzip", "gzip parts", "zstd"])
def test_compressed_logs_are_recognised_and_read_like_others(
    tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    plain, path = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(LOG)
    path.write_bytes(packed(LOG))
    assert recognise(path).kind == Kind.TEXT
    expected, run = load_run([plain]), load_run([path])
    assert list(run.tables) == list(expected.tables)
    for name, frame in expected.tables.items():
        if name != "files":
            columns = [one for one in frame.columns if one != "file"]
            assert run.table(name)[columns].equals(frame[columns]), name
    assert run.table("files")["kind"].tolist() == ["NCCL log, output of a job"]


@pytest.mark.heavy
def test_a_broken_end_of_a_compressed_nccl_log_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log.gz"
    packed = gzip.compress(LOG)
    path.write_bytes(packed[:-12])
    run = load_run([path])
    assert [note for note in texts(run.notes) if "ends early" in note] == [
        f"{path}: the gzip data ends early."
    ]


@pytest.mark.parametrize("start", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"], ids=["gzip", "zstd"])
def test_what_only_looks_compressed_is_one_clear_error(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(start + bytes(range(256)) * 20)
    with pytest.raises(UnreadableInputError, match=r"binary data|no record of a Horovod timeline"):
        load_run([path])


@pytest.mark.heavy
def test_a_truncated_zstd_file_is_reported_after_the_intact_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.zst"
    lines = b"".join(b"%d\n" % (number * 7919) for number in range(200_000))
    packed = pa.compress(lines, codec="zstd", asbytes=True)
    for length in (len(packed) // 2, len(packed) - 1):
        path.write_bytes(packed[:length])
        read = []
        with pytest.raises(BrokenEndError, match="the zstd data ends early"):
            for text in texts_of(text_blocks(path)):
                read.append(text)
        assert len(read) > 50_000
        assert read[:3] == ["0", "7919", "15838"]


@pytest.mark.slow
def test_progress_moves_within_a_text_and_again_while_its_nccl_lines_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", 1 << 16)
    paths = [tmp_path / "one.log", tmp_path / "two.log"]
    for path in paths:
        path.write_bytes(LOG * 100)
    size = len(LOG) * 100
    reports: list[tuple[str, int, int]] = []
    # By two threads the second file may be read before it is waited for.
    load_run(paths, progress=lambda file, done, total: reports.append((file, done, total)), jobs=1)
    dones = [done for _, done, _ in reports]
    again = [at for at in range(1, len(dones)) if dones[at] < dones[at - 1]]
    assert len(again) == 1
    for part in (reports[: again[0]], reports[again[0] :]):
        assert {total for _, _, total in part} == {2 * size}
        assert {file for file, _, _ in part} == {str(path) for path in paths}
        for file, start in zip(paths, (0, size), strict=True):
            within = [done for name, done, _ in part if name == str(file)]
            assert any(start < done < start + size for done in within)
        assert part[-1][1] == 2 * size
