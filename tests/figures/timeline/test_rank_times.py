import numpy as np
import pytest

from hvdprof.figures.timeline.rank_times import StepKind, step_times
from hvdprof.model.tables.run_tables import STEPS
from tests.builders.traced_run import MS, PASS_ID, START_NS, step_row, traced_run


def times_of(own_ms, *, segment=None, warmup=()):
    """Steps of 20 ms and more: own work of every rank in every step, the rest of it blocked."""
    longest = max(20, *(max(row) for row in own_ms))
    rows = [
        step_row(
            rank,
            step,
            start_ns=START_NS + round(step * longest * MS),
            dur_ns=round(max(20, max(row)) * MS),
            blocked_ns=round((max(20, max(row)) - own) * MS),
            warmup=step in warmup,
            **({} if segment is None else {"segment": segment(step)}),
        )
        for step, row in enumerate(own_ms)
        for rank, own in enumerate(row)
    ]
    return step_times(traced_run(steps=STEPS.frame(rows)), PASS_ID)


def test_own_work_is_what_a_rank_is_not_blocked_in():
    times = times_of([[10, 12, 14], [16, 12, 10]])
    assert times.own_ns.tolist() == [[10 * MS, 12 * MS, 14 * MS], [16 * MS, 12 * MS, 10 * MS]]
    assert times.slowest.tolist() == [2, 0]
    assert times.number.tolist() == [0, 1]


def test_a_straggler_needs_a_tenth_of_the_step_more_than_the_median_of_the_others():
    times = times_of([[10, 10, 11.9], [10, 10, 12.1], [10, 10, 10]])
    assert times.has_straggler.tolist() == [False, True, False]
    assert times.of_kind(StepKind.STRAGGLER).tolist() == [1]


def test_steps_of_a_kind():
    times = times_of([[10, 10]] * 3 + [[40, 10]] + [[10, 10]] * 3, warmup=(0, 1))
    assert times.of_kind(StepKind.STALL).tolist() == [3]
    assert times.of_kind(StepKind.LONGEST)[0] == 3
    assert times.of_kind(StepKind.WARMUP).tolist() == [0, 1]


def test_segments_of_one_pass_number_their_steps_anew():
    rows = [step_row(0, step) for step in range(3)] + [
        step_row(0, step, segment="later", start_ns=START_NS + (100 + 20 * step) * MS)
        for step in range(2)
    ]
    times = step_times(traced_run(steps=STEPS.frame(rows)), PASS_ID)
    assert times.number.tolist() == [0, 1, 2, 0, 1]
    assert [times.segments[one] for one in times.segment][-1] == "later"
    assert np.all(np.diff(times.start_ns) > 0)


def test_bands_are_quantiles_over_the_ranks_of_a_group():
    times = times_of([list(range(1, 12))])
    bands = times.bands(np.arange(11), np.array([0])) / MS
    assert bands[0].tolist() == pytest.approx([1.5, 3.5, 6.0, 8.5, 10.5])
    assert times.bands(np.array([4]), np.array([0]))[0].tolist() == [5 * MS] * 5


def test_the_slowest_the_median_and_the_fastest_ranks_are_ranked_by_their_mean():
    own = [[10 + (rank * 7) % 20 / 10 for rank in range(20)]] * 3
    found = times_of([[0] * 20, *own], warmup=(0,)).extremes(np.arange(20))
    assert [word for _, word in found] == ["slow"] * 3 + ["median"] + ["fast"] * 3
    assert [own[0][rank] for rank, _ in found] == [11.9, 11.8, 11.7, 10.9, 10.2, 10.1, 10.0]
    assert times_of(own).extremes(np.arange(6)) == []


def test_a_rank_that_left_is_in_no_median():
    rows = [
        step_row(rank, step) for rank in range(3) for step in range(2) if (rank, step) != (2, 1)
    ]
    times = step_times(traced_run(steps=STEPS.frame(rows)), PASS_ID)
    assert np.isnan(times.own_ns[1, 2])
    assert not times.has_straggler.any()


def test_nothing_is_recorded():
    times = step_times(traced_run(steps=STEPS.empty()), PASS_ID)
    assert len(times.number) == 0
    assert times.of_kind(StepKind.LONGEST).tolist() == []
