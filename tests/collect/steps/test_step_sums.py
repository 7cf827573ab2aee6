"""What a light recording keeps of a step equals what a full one is read as."""

import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hvdprof.collect.steps.step_sums import (
    BYTES_PER_WATCHED_HOUR,
    LONGEST_NS,
    LONGEST_WATCHED_NS,
    PHASE_PARTS,
    KindOfWait,
    WindowPace,
    after_last_wait,
    allowed_bytes,
    part_lengths,
    waits_by_kind,
)
from hvdprof.ingest.recorder import step_phases
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.rundir.layout import watched_mark

S, HOUR_NS = 1_000_000_000, 3_600_000_000_000


def step_line(
    phases: list[tuple[str, int, int]], blocked: list[tuple[int, int]], **values: Any
) -> Any:
    ends = [start + length for _, start, length in phases]
    ends += [start + length for start, length in blocked]
    line = {"kind": "step", "segment": "main", "step": 0, "warmup": False, "start_ns": 0}
    line |= {"dur_ns": max(ends, default=1) + 5, "samples": 1, "ready": []}
    return line | {"phases": phases, "blocked": blocked} | values


@st.composite
def steps(draw: st.DrawFn) -> Any:
    """Steps as recorders write them: phases, and waits, never overlap each other."""

    def intervals(most: int) -> list[tuple[int, int]]:
        drawn = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=most))
        at, found = 0, []
        for gap, length in drawn:
            found.append((at + gap, length))
            at += gap + length
        return found

    names = st.sampled_from([*PHASE_PARTS, "collective", "mine"])
    phases = [(draw(names), start, length) for start, length in intervals(8)]
    return step_line(draw(st.permutations(phases)), intervals(5))


@given(steps())
def test_parts_are_those_of_a_full_recording(line: Any) -> None:
    of_full = dict(
        zip(
            RECORDED_PARTS, step_phases.part_lengths(line, step_phases.intervals(line)), strict=True
        )
    )
    lengths = part_lengths(line)
    assert {part: lengths.get(part, 0) for part in PHASE_PARTS} == {
        part: of_full[part] for part in PHASE_PARTS
    }
    waits = waits_by_kind(line)
    assert sum(one.blocked_ns for one in waits.values()) == of_full["blocked"]
    if waits:
        parts = sum(one.blocked_ns + one.own_ns for one in waits.values())
        assert parts + after_last_wait(line) == line["dur_ns"]


def test_waits_are_summed_by_kind_with_the_own_time_before_them() -> None:
    waits = [("unshard_forward", -1, 4), ("unshard_forward", -1, 4), ("reduce_scatter", 3, 2)]
    line = step_line([("forward", 0, 60)], [(10, 5), (25, 5), (40, 20)], waits=waits)
    assert waits_by_kind(line) == {
        "unshard_forward": KindOfWait(2, 10 + 10, 10, 4),
        "reduce_scatter": KindOfWait(1, 10, 20, 2),
    }
    assert after_last_wait(line) == 5


def test_ranks_of_a_kind_are_unknown_where_they_differ() -> None:
    waits = [("user", -1, 4), ("user", -1, 2), ("user", -1, 4)]
    line = step_line([], [(0, 1), (2, 1), (4, 1)], waits=waits)
    assert waits_by_kind(line)["user"].num_ranks == 0
    # One more of the first kind does not make it known again.
    both = KindOfWait(0)
    for one in (KindOfWait(1, 0, 0, 4), KindOfWait(1, 0, 0, 2), KindOfWait(1, 0, 0, 2)):
        both.add(one)
    assert both.num_ranks == 0


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
