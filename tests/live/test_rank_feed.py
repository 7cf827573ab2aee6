"""Windows of a rank from light and full recordings, also from damaged and hostile ones."""

import json
import math
import os

import pytest

from hvdprof.live import rank_feed
from hvdprof.live.rank_feed import FileTail, RankFeed
from tests.builders.live_job import WALL_NS, header, step, window


def _feed(tmp_path, *lines):
    path = tmp_path / "rank-0.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return RankFeed(0, path)


def test_a_full_recording_and_a_light_one_have_the_same_sums(tmp_path):
    steps = [step(at, own=700, length=1000, start=1000 * at) for at in range(4)]
    (one, *others) = _feed(tmp_path, header(0, 2), *steps).windows()
    for other in others:
        one.add(other)
    light = window(0, 3, own=2800, length=4000, wall_ns=WALL_NS + 4000)
    feed = _feed(tmp_path, header(0, 2), light)
    assert feed.windows() == [one]
    assert (feed.size, feed.host, feed.last_step) == (2, "node0", 3)
    assert one.own == [280, 2520, 0, 0, 0, 0]


def test_unseen_waits_leave_no_own_time(tmp_path):
    lines = step(0, own=7, length=10, blocked=None), window(1, 2, own=7, length=10, waits=None)
    found = _feed(tmp_path, header(0, 2), *lines).windows()
    assert [one.own for one in found] == [None, None]
    found[0].add(found[1])
    assert found[0].own is None


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -3},
        {"step": "x"},
        {"last_step": -1},
        {"num_steps": 0},
        {"samples": 10**400},
        {"end_ns": 10**400},
        {"lengths": [math.nan, 0, 0, 0]},
        {"lengths": [-5, 0, 0, 0]},
        {"lengths": [10**400, 0, 0, 0]},
        {"parts": {"data": [10**400, 0, 0, 0]}},
        {"parts": {"blocked": [-(10**400), 0, 0, 0]}},
        {"parts": []},
    ],
)
def test_a_hostile_window_is_skipped_and_counted(tmp_path, changes):
    good = window(8, 15, own=7, length=10)
    feed = _feed(tmp_path, header(0, 2), window(0, 7, own=7, length=10) | changes, good)
    assert [one.first for one in feed.windows()] == [8]
    assert feed.num_damaged == 1


def test_torn_and_damaged_lines_are_skipped_and_the_end_is_seen(tmp_path):
    feed = _feed(tmp_path, header(0, 2), "[]", '{"kind": "win', "", {"kind": "end"})
    assert (feed.windows(), feed.num_damaged, feed.has_ended) == ([], 2, True)


def test_a_size_beyond_all_jobs_is_bounded(tmp_path):
    feed = _feed(tmp_path, header(0, 10**300), header(0, -1))
    feed.windows()
    assert (feed.size, feed.num_damaged) == (0, 2)


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
    monkeypatch.setattr(rank_feed, "_AT_ONCE", 5)
    path = tmp_path / "file"
    path.write_text("abc\ndef\n")
    tail = FileTail(path)
    assert (tail.lines(), tail.is_behind) == ([b"abc"], True)
    path.unlink()
    assert (tail.lines(), tail.is_behind) == ([], False)
