"""What a host sends of its recordings: pieces in any parts, damaged and hostile, its process."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.launch.remote.live_files import GrowingFiles, Piece, PieceReader
from hvdprof.rundir.layout import request_file, watched_mark

TOKEN = "0123456789abcdef"
PIECES = [
    Piece("rank-1.jsonl", 0, b'{"kind": "header"}\n'),
    Piece("", 0, b""),
    Piece("lines-1-worker-3.jsonl", 77, bytes(range(256))),
    Piece("event-0-rank-1-worker-3.stack", 0, b"Stacks"),
    Piece("samples-1.jsonl", 0, b"{"),
]


def _stream(*pieces: Piece, before: bytes = b"Welcome to host h2\n") -> bytes:
    return before + f"{TOKEN}\n".encode() + b"".join(piece.packed() for piece in pieces)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_pieces_come_in_parts_of_any_size_after_the_words_of_a_login_shell(size: int) -> None:
    stream, reader = _stream(*PIECES), PieceReader(TOKEN)
    parts = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [piece for part in parts for piece in reader.take(part)] == PIECES


def test_a_torn_piece_is_none() -> None:
    reader = PieceReader(TOKEN)
    assert list(reader.take(_stream(*PIECES)[:-1])) == PIECES[:-1]


def test_another_token_gives_nothing_and_is_refused() -> None:
    reader = PieceReader("another")
    assert list(reader.take(_stream(*PIECES))) == []
    assert not reader.has_begun
    with pytest.raises(UnreadableInputError, match="token"):
        for _ in range(20):
            assert list(reader.take(b"x" * 100_000)) == []


@pytest.mark.parametrize(
    "name",
    [
        "../rank-1.jsonl",
        "/etc/passwd",
        "rank-1.jsonl/x",
        "rank-.jsonl",
        "rank-12345678.jsonl",
        "rank-1.jsonl\n",
        "watched",
        "ddp.json",
        "rank-\u0661.jsonl",
    ],
)
def test_names_other_than_those_of_recordings_are_refused(name: str) -> None:
    with pytest.raises(UnreadableInputError, match="is no file that ranks record"):
        list(PieceReader(TOKEN).take(_stream(Piece(name, 0, b"x"))))


def test_sizes_beyond_those_that_are_sent_are_refused_before_they_are_held() -> None:
    large = Piece("rank-1.jsonl", 0, b"x" * ((1 << 18) + 1))
    with pytest.raises(UnreadableInputError, match="larger"):
        list(PieceReader(TOKEN).take(_stream(large)[:60]))
    with pytest.raises(UnreadableInputError, match="larger"):
        list(PieceReader(TOKEN).take(_stream(Piece("r" * 70, 0, b""))[:60]))


def test_a_damaged_piece_is_refused() -> None:
    stream = bytearray(_stream(PIECES[0]))
    stream[-3] ^= 1
    with pytest.raises(UnreadableInputError, match="damaged"):
        list(PieceReader(TOKEN).take(bytes(stream)))
    with pytest.raises(UnreadableInputError, match="damaged"):
        list(PieceReader(TOKEN).take(_stream(Piece("rank-1.jsonl", 1 << 63, b""))))


def test_files_are_sent_as_they_grow_and_anew_where_they_are_others(tmp_path: Path) -> None:
    path = tmp_path / "rank-1.jsonl"
    path.write_text("one\n")
    (tmp_path / "ddp.json").write_text("{}")
    (tmp_path / "rank-2.jsonl").symlink_to("/etc/passwd")
    files = GrowingFiles(tmp_path)
    assert list(files.pieces()) == [Piece("rank-1.jsonl", 0, b"one\n")]
    assert list(files.pieces()) == []
    path.write_text("one\ntwo\n")
    assert list(files.pieces()) == [Piece("rank-1.jsonl", 4, b"two\n")]
    path.write_text("six\nsev\neight\n")
    assert list(files.pieces()) == [Piece("rank-1.jsonl", 0, b"six\nsev\neight\n")]
    path.write_text("9\n")
    assert list(files.pieces()) == [Piece("rank-1.jsonl", 0, b"9\n")]
    assert list(GrowingFiles(tmp_path / "none").pieces()) == []


def test_a_long_file_comes_in_bounded_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3000
    (tmp_path / "rank-1.jsonl").write_bytes(content)
    files, found = GrowingFiles(tmp_path), b""
    while pieces := list(files.pieces()):
        (piece,) = pieces
        assert (piece.begin, len(piece.content) <= 1 << 18) == (len(found), True)
        found += piece.content
    assert found == content


def test_the_process_goes_on_where_the_other_side_is_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "rank-1.jsonl").write_text("one\ntwo\n")
    command = [sys.executable, "-m", "hvdprof.launch.remote.live_files", str(tmp_path)]
    held = {"rank-1.jsonl": [4, b"one\n".hex()]}
    given = json.dumps({"token": TOKEN, "held": held}).encode()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{TOKEN}\n".encode()
        expected = Piece("rank-1.jsonl", 4, b"two\n").packed()
        assert process.stdout.read(len(expected)) == expected
        marked = watched_mark(tmp_path).stat().st_mtime_ns
        time.sleep(0.01)
        process.stdin.write(b"\n")
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while watched_mark(tmp_path).stat().st_mtime_ns == marked:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(30) == 0
    assert not watched_mark(tmp_path).exists()


def test_damaged_and_hostile_requests_are_written_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hvdprof.launch.remote.live_files", str(tmp_path)]
    good = {"event": 1, "samples": True, "first_step": -1}
    lines = [
        {"token": TOKEN, "held": {}},
        {"../request-1.json": [good]},
        {"rank-1.jsonl": [good], "request-1.json\n": [good]},
        {"request-2.json": [{"event": "x"}]},
        [1],
        {"request-3.json": [good]},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines).encode() + b"{torn\n"
    # All at once: nothing of it may stay in a buffer behind the first line.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not request_file(tmp_path, 3).exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(30) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["request-3.json"]
    assert not (tmp_path.parent / "request-1.json").exists()


def test_a_process_without_a_token_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hvdprof.launch.remote.live_files", str(tmp_path)]
    for given in (b"", b"[]\n", b"hello\n", b'{"token": "x", "held": {"a": 1}}\n'):
        done = subprocess.run(command, input=given, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (UnreadableInputError.exit_code, b"")
        assert done.stderr == b"standard input does not begin with a token\n"
