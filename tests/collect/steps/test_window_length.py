"""Windows are short while a watcher changes the mark."""

import os

from hvdprof.collect.steps.window_length import (
    BYTES_PER_WATCHED_HOUR,
    LONGEST_NS,
    LONGEST_WATCHED_NS,
    WindowPace,
    allowed_bytes,
)
from hvdprof.rundir.layout import watched_mark

S, HOUR_NS = 1_000_000_000, 3_600_000_000_000


def test_windows_are_short_while_the_mark_changes_and_for_30_s_more(tmp_path):
    now_ns = [0]
    pace = WindowPace(tmp_path, lambda: now_ns[0])
    assert pace.target_ns(HOUR_NS) == LONGEST_NS
    mark = watched_mark(tmp_path)
    mark.touch()
    for second in range(5, 65, 5):
        # The clock of the watcher's host is years off.
        os.utime(mark, (second, second))
        now_ns[0] = second * S
        assert pace.target_ns(HOUR_NS) == LONGEST_WATCHED_NS
    more = pace.allowed_bytes(HOUR_NS) - allowed_bytes(HOUR_NS)
    assert abs(more - BYTES_PER_WATCHED_HOUR * 55 // 3600) < BYTES_PER_WATCHED_HOUR * 6 // 3600
    mark.unlink()
    now_ns[0] = 88 * S
    assert pace.target_ns(HOUR_NS) == LONGEST_WATCHED_NS
    now_ns[0] = 95 * S
    assert pace.target_ns(HOUR_NS) == LONGEST_NS


def test_a_watched_job_that_is_young_keeps_its_shorter_windows(tmp_path):
    watched_mark(tmp_path).touch()
    assert WindowPace(tmp_path, lambda: 1).target_ns(S) == WindowPace().target_ns(S)
