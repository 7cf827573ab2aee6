"""Windows of a rank from light and full recordings, also from damaged and hostile ones."""

import json
import math

import pytest

from hvdprof.live.rank_feed import RankFeed
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
