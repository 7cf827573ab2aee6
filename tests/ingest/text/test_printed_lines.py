# ruff: noqa: E501  (lines of logs are as long as they are)
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.text.printed_lines import LogFile, printed_lines


@pytest.mark.parametrize(
    ("text", "rank", "plain"),
    [
        ("plain", None, "plain"),
        ("[1,3]<stdout>:text", 3, "text"),
        ("[1,3]<stderr>: text", 3, "text"),
        ("[2]<stdout>:text", 2, "text"),
        ("Fri Jun 19 08:53:03 2020[1,12]<stdout>:text", 12, "text"),
        ("Fri Sep 18 03:11:09 2020[0]<stderr>:text", 0, "text"),
        ("[1,mpirank:4,algo-1]<stdout>:text", 4, "text"),
        ("2020-01-15 22:44:33 UTC master.0 -- [1,0]<stderr>:text", 0, "text"),
        ("[1,0]<stdout>:-1[1,0]<stdout>:    203.4", 0, "-1    203.4"),
        ("7: text", 7, "text"),
        ("0: [2026-01-01 00:00:00.000001: W x.cc:1] text", 0, "[2026-01-01 00:00:00.000001: W x.cc:1] text"),
        ("1: [allreduce.a, allreduce.b]", None, "1: [allreduce.a, allreduce.b]"),
        ("   [1,0]<stdout>:#  size", 0, "#  size"),
        ("\x1b[32mgreen\x1b[0m", None, "green"),
    ],
)  # fmt: skip
def test_log_prefixes_are_removed_and_give_the_rank(
    tmp_path: Path, text: str, rank: int | None, plain: str
) -> None:
    path = tmp_path / "job.out"
    path.write_text(text)
    (line,) = printed_lines(path)
    assert (line.rank, line.text) == (rank, plain)


def test_carriage_returns_and_long_lines_come_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"10%\r20%\r\nnext\r\n" + b"x" * 150_000 + b"\nlast")
    lines = list(printed_lines(path))
    assert [(line.number, line.text) for line in lines[:3]] == [(1, "10%"), (1, "20%"), (2, "next")]
    assert {line.number for line in lines[3:-1]} == {3}
    assert "".join(line.text for line in lines[3:-1]) == "x" * 150_000
    assert (lines[-1].number, lines[-1].text) == (4, "last")


@pytest.mark.parametrize("num_bytes", [70_000, 1_100_000, 3_300_000])
def test_of_a_long_line_of_nccl_the_beginning_comes_alone(tmp_path: Path, num_bytes: int) -> None:
    head = b"h:1:2 [0] NCCL INFO "
    long = head + b"y" * num_bytes
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n".join([b"one", long, b"x" * 70_000, b"four", long, long, b"end"]))
    lines = list(printed_lines(path))
    found = [(line.number, line.text[:20], len(line.text)) for line in lines]
    of_nccl = (head.decode(), 5_000)
    assert [one for one in found if one[0] != 3] == [
        (1, "one", 3),
        (2, *of_nccl),
        (4, "four", 4),
        (5, *of_nccl),
        (6, *of_nccl),
        (7, "end", 3),
    ]
    assert sum(length for number, _, length in found if number == 3) == 70_000


def test_a_progress_bar_behind_a_line_of_nccl_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"h:1:2 [0] NCCL INFO x" + b"y" * 70_000 + b"\r10%\r20%\nend\n")
    assert [line.text for line in printed_lines(path)][-3:] == ["10%", "20%", "end"]


def test_the_last_line_of_a_file_may_be_a_long_one_of_nccl(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\nh:1:2 [0] NCCL INFO " + b"y" * 2_200_000)
    source = LogFile(path)
    assert [(line.number, len(line.text)) for line in source.lines()] == [(1, 3), (2, 5_000)]
    assert source.num_lines == 2


def test_compressed_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert [line.text for line in printed_lines(path)] == ["one", "two"]


@given(content=st.binary(max_size=400))
def test_any_bytes_are_lines(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.txt"
    path.write_bytes(b"x" + content)
    numbers = [line.number for line in printed_lines(path)]
    assert numbers == sorted(numbers)
    assert max(numbers) == (b"x" + content).rstrip(b"\n").count(b"\n") + 1 + (
        0 if not content.endswith(b"\n") else len(content) - len(content.rstrip(b"\n")) - 1
    )


@pytest.mark.parametrize("line_end", ["\n", "\r"])
def test_of_many_lines_each_reader_takes_what_it_wants(tmp_path: Path, line_end: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(line_end.join(["a", "b", "ab", "c"] * 300))
    source = LogFile(path)
    given = [(line.text, list(source.takers(("a", "b", "")))) for line in source.lines()]
    assert given[:4] == [("a", [0, 2]), ("b", [1, 2]), ("ab", [0, 1, 2]), ("c", [2])]
    # The last line, without an end, is a block of its own.
    assert given[:-1] == (given[:4] * 300)[:-1]


def test_of_few_lines_every_reader_takes_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n" * 20 + "a\rb")
    source = LogFile(path)
    assert {len(source.takers(("a", "b"))) for _ in source.lines()} == {2}
