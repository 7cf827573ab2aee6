"""A log may end anywhere and hold anything: what was whole is kept, and nothing raises."""

import random
from pathlib import Path

import pytest

from hvdprof.analyze.findings.nccl_findings import nccl_findings
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.ingest.text import text_lines
from hvdprof.ingest.text.printed_lines import LogFile
from tests.builders.nccl_log import call_line, job, recorded, said

LOG = [
    *job(),
    call_line(0, 1000),
    "oak1:1:2 [1] transport/x.cc:1 NCCL WARN NET/IB : Got completion from peer 1.2.3.4<4> with "
    "error 12, opcode 0, len 0, vendor err 129",
    said("transport/net.cc:1134 -> 6"),
    said("AllReduce: 8192 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..23}"),
    said("GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (distance 6 > 4)"),
    "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLGATHER) ran for 120008 milliseconds",
]
TEXT = ("\n".join(LOG) + "\n").encode()
NOISE = (b"\n", b"\0", b"\xff\xfe", b"]", b"[", b": ", b" NCCL INFO ", b"9" * 40, b"\x1b[31m", b"")


@pytest.mark.slow
def test_a_cut_anywhere_loses_at_most_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    whole = [TEXT[: end + 1] for end in range(len(TEXT)) if TEXT[end : end + 1] == b"\n"]
    for end in range(60, len(TEXT), 31):
        path.write_bytes(TEXT[:end])
        recording = read_nccl_logs([path])
        done = max((len(text) for text in whole if len(text) <= end), default=0)
        connections = TEXT[:done].count(b" via ")
        assert connections <= len(recording.connections) <= connections + 1
        assert recording.ranks["complete"].sum() >= TEXT[:done].count(b"Init COMPLETE")
        assert len(recording.calls) >= TEXT[:done].count(b"opCount")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_mutants_never_raise_but_for_nothing_usable(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    text = bytearray(TEXT)
    for _ in range(draw.randint(1, 40)):
        start = draw.randrange(len(text))
        text[start : start + draw.choice((0, 1, 3, 30, 300))] = draw.choice(NOISE)
    path = tmp_path / "mutant.log"
    path.write_bytes(bytes(text))
    try:
        recording = read_nccl_logs([path])
    except UnreadableInputError:
        return
    found = nccl_findings(recording)
    assert set(found["severity"]) <= {"error", "warning", "note"}
    assert recording.line_kinds["count"].min() >= 1 or recording.line_kinds.empty


def test_the_size_of_the_pieces_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(TEXT + "größe\r\nlast without end".encode())
    whole = [line.text for line in LogFile(path).lines()]
    assert whole == [*LOG[:-1], LOG[-1].removeprefix("[rank1]:"), "größe", "last without end"]
    for size in (1, 7, 100):
        monkeypatch.setattr(text_lines, "_CHUNK_BYTES", size)
        assert [line.text for line in LogFile(path).lines()] == whole


def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000 + b"\n" + said("Using network IB").encode())
    read = [line.text for line in LogFile(path).lines()]
    assert "".join(read[:-1]) == "x" * 200_000
    assert max(map(len, read)) <= 1 << 16
    assert read_nccl_logs([path]).networks["state"].tolist() == ["using"]


def test_numbers_too_long_for_a_table_are_not_understood(tmp_path: Path) -> None:
    lines = [
        said("Ring 00 : 1 -> 99999999999999999999999999 -> 1"),
        call_line(0, 10**30),
        said(f"{'9' * 5000} coll channels, 1 p2p channels, 1 p2p channels per peer"),
        said("comm 0x1 rank 3 nranks 40005000 cudaDev 0 busId 1 - Init START"),
        said("comm 0x1 rank 3 nranks 3 cudaDev 0 busId 1 - Init COMPLETE"),
        said("comm 0x1 rank 99999999999999999999 nranks 2 cudaDev 0 busId 1 - Init COMPLETE"),
    ]
    kinds = recorded(tmp_path, lines).line_kinds
    assert kinds["count"].sum() == 6
    assert not kinds["understood"].any()
