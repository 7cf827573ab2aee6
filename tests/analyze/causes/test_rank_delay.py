"""A rank's delay taken out of a launch, and what it costs: simulated launches of known delays."""

import numpy as np
import pytest

from hvdprof.analyze.causes.delays import later_rows, rows_of
from hvdprof.analyze.causes.rank_delay import (
    RankDelay,
    delay_costs,
    phase_times,
    without_delays,
)
from hvdprof.rundir.recorder_format import REDUCE_SCATTER, UNSHARD_FORWARD
from tests.builders.step_works import MS, PARTS_MS, simulated
from tests.builders.synced_steps import Piece, launch_of, own_work

STEPS = 30


def longest_ns(work):
    """The step time of the replay, ns."""
    rows = [rows_of(work), *later_rows(work)]
    whole = sum((one.begin + one.window + one.tail).max(axis=0).sum() for one in rows)
    return float(whole) / len(work.steps)


def launch(phase="forward", extra_ms=(0.0, 0.0), **options):
    return simulated(STEPS, len(extra_ms), extra_ms={phase: np.array(extra_ms)}, **options)


@pytest.mark.parametrize("phase", [*PARTS_MS, "outside"])
def test_a_launch_without_its_delay_is_the_launch_that_never_had_it(phase):
    slow = launch(phase, (0.0, 6.0))
    without = without_delays(slow, [RankDelay(1, phase, 6.0 * MS)])
    never = launch(phase)

    assert without.own_before_sync == pytest.approx(never.own_before_sync)
    assert without.own_after_release == pytest.approx(never.own_after_release)
    for name, times in phase_times(without).items():
        assert times == pytest.approx(phase_times(never)[name], abs=1)
    # The optimizer of the last step is followed by no step of this launch.
    cost = longest_ns(slow) - longest_ns(without)
    assert delay_costs(slow, [RankDelay(1, phase, 6.0 * MS)]) == [pytest.approx(cost)]
    assert cost == pytest.approx(slow.step_times.mean() - never.step_times.mean(), rel=0.05)


def test_a_delay_that_waits_for_a_slower_rank_costs_nothing():
    work = launch("backward", (0.0, 5.0, 20.0), noise=0.0)

    assert delay_costs(work, [RankDelay(1, "backward", 5.0 * MS)]) == [0.0]
    assert delay_costs(work, [RankDelay(2, "backward", 15.0 * MS)]) == [pytest.approx(15.0 * MS)]


def test_two_delays_share_the_cost_that_neither_has_alone():
    work = launch("backward", (0.0, 8.0, 8.0), noise=0.0)
    delays = [RankDelay(place, "backward", 8.0 * MS) for place in (1, 2)]

    assert delay_costs(work, delays) == [pytest.approx(4.0 * MS)] * 2


def test_no_step_loses_more_of_a_phase_than_it_has():
    without = without_delays(launch("forward", (0.0, 6.0)), [RankDelay(0, "data", 50.0 * MS)])

    assert without.parts["data"][:, 0] == pytest.approx(np.zeros(STEPS))
    assert (without.own_before_sync > 0).all()


def test_of_several_waits_a_step_loses_the_delay_where_the_rank_is_late():
    pieces = (Piece("forward", 10.0, UNSHARD_FORWARD), Piece("backward", 30.0, REDUCE_SCATTER))
    late = {0: np.array([0.0, 4.0])}
    slow, never = (
        launch_of(pieces, own_work(pieces, (STEPS, 2), extra_ms=extra, noise=0.001)).work
        for extra in (late, {})
    )
    delay = RankDelay(1, "forward", 4.0 * MS)
    without = without_delays(slow, [delay])

    assert without.points.before == pytest.approx(never.points.before, abs=0.2 * MS)
    assert without.points.of_steps(without.points.before) == pytest.approx(without.own_before_sync)
    assert delay_costs(slow, [delay]) == [pytest.approx(4.0 * MS, rel=0.03)]
