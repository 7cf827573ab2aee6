"""A rank's delay taken out of a launch, and what it costs: simulated launches of known delays."""

import numpy as np
import pytest

from hvdprof.analyze.compare.cell_terms import delay_costs
from hvdprof.analyze.ranks.rank_times import RankDelay, rank_times, replayed_without
from hvdprof.rundir.recording.recorder_format import REDUCE_SCATTER, UNSHARD_FORWARD
from tests.builders.step_works import MS, PARTS_MS, simulated
from tests.builders.synced_steps import Piece, launch_of, own_work

STEPS = 30


def launch(phase="forward", extra_ms=(0.0, 0.0), **options):
    extra = {phase: np.array(extra_ms)}
    return rank_times(simulated(STEPS, len(extra_ms), extra_ms=extra, **options))


@pytest.mark.parametrize("phase", [*PARTS_MS, "outside"])
def test_a_launch_without_its_delay_is_the_launch_that_never_had_it(phase):
    delay = RankDelay(1, phase, 6.0 * MS)
    slow, never = launch(phase, (0.0, 6.0)), launch(phase)
    without = replayed_without(slow, [delay])

    np.testing.assert_allclose(without.own_ns, never.own_ns, atol=1)
    assert without.step_ns == pytest.approx(never.step_ns, rel=0.01)
    (cost,) = delay_costs(slow, [delay])
    assert cost == pytest.approx(slow.step_ns - without.step_ns)
    assert cost == pytest.approx(slow.step_ns - never.step_ns, rel=0.1)


def test_a_delay_that_waits_for_a_slower_rank_costs_nothing():
    times = launch("backward", (0.0, 5.0, 20.0), noise=0.0)

    assert delay_costs(times, [RankDelay(1, "backward", 5.0 * MS)]) == [0.0]
    (cost,) = delay_costs(times, [RankDelay(2, "backward", 15.0 * MS)])
    assert cost == pytest.approx(15.0 * MS, rel=0.01)


def test_two_delays_share_the_cost_that_neither_has_alone():
    times = launch("backward", (0.0, 8.0, 8.0), noise=0.0)
    delays = [RankDelay(place, "backward", 8.0 * MS) for place in (1, 2)]

    assert delay_costs(times, delays) == [pytest.approx(4.0 * MS, rel=0.01)] * 2
    assert delay_costs(times, []) == []


def test_no_step_loses_more_of_a_phase_than_it_has():
    times = launch("forward", (0.0, 6.0))
    without = replayed_without(times, [RankDelay(0, "data", 50.0 * MS)])

    own = without.own_ns[:, 0]
    assert (own[:, times.phases.index("data")] == 0).all()
    np.testing.assert_array_equal(
        np.delete(own, times.phases.index("data"), axis=1),
        np.delete(times.own_ns[:, 0], times.phases.index("data"), axis=1),
    )


def test_a_phase_that_a_launch_does_not_have_costs_nothing():
    times = launch()
    assert replayed_without(times, [RankDelay(0, "evaluation", MS)]).own_ns is not times.own_ns
    assert delay_costs(times, [RankDelay(0, "evaluation", MS)]) == [0.0]


def test_of_several_waits_a_step_loses_the_delay_where_the_rank_is_late():
    pieces = (Piece("forward", 10.0, UNSHARD_FORWARD), Piece("backward", 30.0, REDUCE_SCATTER))
    late = {0: np.array([0.0, 4.0])}
    slow, never = (
        rank_times(
            launch_of(pieces, own_work(pieces, (STEPS, 2), extra_ms=extra, noise=0.001)).work
        )
        for extra in (late, {})
    )
    delay = RankDelay(1, "forward", 4.0 * MS)
    without = replayed_without(slow, [delay])

    np.testing.assert_allclose(without.own_ns, never.own_ns, atol=0.2 * MS)
    assert delay_costs(slow, [delay]) == [pytest.approx(4.0 * MS, rel=0.03)]
