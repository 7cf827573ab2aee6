"""Whole lines of a file that grows, shrinks, is replaced, or is none."""

import os

from hvdprof.live import file_tail
from hvdprof.live.file_tail import FileTail


def test_lines_follow_a_file_that_grows_and_is_torn_in_a_letter(tmp_path):
    path = tmp_path / "file"
    tail = FileTail(path)
    assert tail.lines() == []
    letter = "ä".encode()
    path.write_bytes(b"one\n" + letter[:1])
    assert (tail.lines(), tail.is_torn) == ([b"one"], True)
    with path.open("ab") as file:
        file.write(letter[1:] + b"\ntwo\n")
    assert (tail.lines(), tail.is_torn) == ([letter, b"two"], False)
    assert tail.lines() == []


def test_a_file_that_shrinks_or_is_replaced_is_read_anew(tmp_path):
    path = tmp_path / "file"
    path.write_text("long line\nand another\n")
    tail = FileTail(path)
    tail.lines()
    path.write_text("a\n")
    assert tail.lines() == [b"a"]
    other = tmp_path / "other"
    other.write_text("c\nd\n")
    other.replace(path)
    assert tail.lines() == [b"c", b"d"]


def test_a_copy_of_the_same_file_is_read_on(tmp_path):
    path, copy = tmp_path / "file", tmp_path / "copy"
    path.write_text("a long line\n" * 20 + "torn")
    tail = FileTail(path)
    assert len(tail.lines()) == 20
    copy.write_text(path.read_text() + " line\nnew\n")
    copy.replace(path)
    assert tail.lines() == [b"torn line", b"new"]


def test_a_named_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert FileTail(tmp_path / "pipe").lines() == []


def test_more_than_a_look_reads_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(file_tail, "_AT_ONCE", 5)
    path = tmp_path / "file"
    path.write_text("abc\ndef\n")
    tail = FileTail(path)
    assert (tail.lines(), tail.is_behind) == ([b"abc"], True)
    path.unlink()
    assert (tail.lines(), tail.is_behind) == ([], False)
