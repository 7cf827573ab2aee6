from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.causes import launch_causes as causes_module
from hvdprof.analyze.causes.launch_causes import COMPUTE, DATA, OUTSIDE, delays_of
from hvdprof.analyze.ranks.named_cause import (
    FROM_STEP,
    IRREGULAR,
    PAUSE,
    PERIODIC,
    PERSISTENT,
    STRAGGLER,
    NamedCause,
)
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.rundir.recording.recorder_format import USER
from tests.builders.step_works import MS, simulated, without_steps
from tests.builders.synced_steps import Piece, fsdp_step, launch_of, own_work

STEPS = 200


def cause(affected, *, kind=STRAGGLER, pattern=PERSISTENT, phase="data"):
    """A named cause that acts where ``affected`` [steps, ranks] says."""
    own = affected.copy()
    own[0] = False
    return NamedCause(
        kind=kind,
        ranks=tuple(np.flatnonzero(own.any(axis=0)).tolist()),
        phase=phase,
        phase_share=1.0,
        pattern=pattern,
        period_steps=float("nan"),
        num_events=int(own.any(axis=1).sum()),
        first_step=1 + int(own.any(axis=1).argmax()),
        last_step=STEPS,
        last_delay_ns=float("nan"),
        affected=own,
    )


def launch_causes(work, named):
    return causes_module.launch_causes(rank_times(work), named)


def acts(num_ranks, ranks, steps):
    found = np.zeros((STEPS, num_ranks), dtype=bool)
    found[np.ix_(np.asarray(steps), ranks)] = True
    return found


def delayed(affected, extra_ms, phase="data", **values):
    """A launch with the cause in it, the cause, and the same launch without it."""
    own = affected.copy()
    own[0] = False
    pure = simulated(STEPS, affected.shape[1], **values)
    return simulated(STEPS, affected.shape[1], extra_ms={phase: own * extra_ms}, **values), pure


def ms(credit, work):
    return credit.share * work.step_times.mean() / 1e6


ALL = np.arange(STEPS)
EVERY_20 = np.arange(19, STEPS, 20)


def whole(found):
    shares = [one.share for one in (*found.named, found.jitter, found.transfer)]
    return sum(shares) + sum(found.normal.values())


@pytest.mark.parametrize("num_ranks", [2, 8])
@pytest.mark.parametrize("phase", ["data", "forward", "backward", "optimizer", "outside"])
def test_a_persistent_straggler_has_its_whole_cost_in_one_place(num_ranks, phase):
    affected = acts(num_ranks, [1], ALL)
    work, pure = delayed(affected, 40.0, phase)

    found = launch_causes(work, [[cause(affected, phase=phase)]])

    lost = (work.step_times.mean() - pure.step_times.mean()) / 1e6
    assert lost > 35
    assert ms(found.named[0], work) == pytest.approx(lost, rel=0.04)
    assert whole(found) == pytest.approx(1, abs=1e-12)
    # The other ranks compute as long as without it.
    compute = found.normal[COMPUTE] * work.step_times.mean() / 1e6
    assert compute == pytest.approx(93.0, rel=0.01)
    assert found.normal[DATA] * work.step_times.mean() / 1e6 == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("num_ranks", [2, 8])
def test_a_rank_that_pauses_every_20_steps(num_ranks):
    affected = acts(num_ranks, [0], EVERY_20)
    work, pure = delayed(affected, 500.0, "outside")

    found = launch_causes(work, [[cause(affected, pattern=PERIODIC, phase="outside")]])

    lost = (work.step_times.mean() - pure.step_times.mean()) / 1e6
    assert ms(found.named[0], work) == pytest.approx(lost, rel=0.02)
    assert found.normal[OUTSIDE] == pytest.approx(0, abs=1e-9)
    assert found.extents[0].affected_share == pytest.approx(0.05)
    assert found.extents[0].delay_ns == pytest.approx(500e6, rel=0.01)


def test_a_pause_of_all_ranks_is_no_slow_normal_rank():
    affected = acts(4, [0, 1, 2, 3], EVERY_20)
    work, pure = delayed(affected, 200.0, "backward")

    found = launch_causes(work, [[cause(affected, kind=PAUSE, pattern=PERIODIC)]])

    lost = (work.step_times.mean() - pure.step_times.mean()) / 1e6
    assert ms(found.named[0], work) == pytest.approx(lost, rel=0.02)
    assert found.normal[COMPUTE] * work.step_times.mean() / 1e6 == pytest.approx(93.0, rel=0.01)
    assert whole(found) == pytest.approx(1, abs=1e-12)


def test_what_a_named_rank_stops_longer_than_all_is_no_part_of_their_pause():
    affected, longer = acts(2, [0, 1], EVERY_20), acts(2, [0], EVERY_20)
    extra = 300.0 * affected + 280.0 * longer
    work = simulated(STEPS, 2, extra_ms={"outside": extra})
    pause = [cause(affected, kind=PAUSE, pattern=PERIODIC, phase="outside")]
    straggler = [cause(longer, pattern=PERIODIC, phase="outside")]

    found = launch_causes(work, [pause, straggler])

    assert ms(found.named[0], work) == pytest.approx(300 / 20, rel=0.03)
    assert ms(found.named[1], work) == pytest.approx(280 / 20, rel=0.03)
    assert found.extents[0].delay_ns == pytest.approx(300e6, rel=0.02)
    assert whole(found) == pytest.approx(1, abs=1e-12)


def test_a_rank_that_is_slow_from_a_step_on():
    affected = acts(4, [2], ALL[120:])
    work, pure = delayed(affected, 50.0, "forward")

    found = launch_causes(work, [[cause(affected, pattern=FROM_STEP)]])

    lost = (work.step_times.mean() - pure.step_times.mean()) / 1e6
    assert ms(found.named[0], work) == pytest.approx(lost, rel=0.05)
    assert found.extents[0].affected_share == pytest.approx(0.4, abs=0.01)


def test_any_rank_late_at_random():
    rng = np.random.default_rng(3)
    affected = np.zeros((STEPS, 4), dtype=bool)
    steps = rng.choice(np.arange(1, STEPS), 14, replace=False)
    affected[steps, rng.integers(0, 4, 14)] = True
    work, pure = delayed(affected, 150.0, "forward")

    found = launch_causes(work, [[cause(affected, pattern=IRREGULAR)]])

    lost = (work.step_times.mean() - pure.step_times.mean()) / 1e6
    assert ms(found.named[0], work) == pytest.approx(lost, rel=0.03)
    assert found.extents[0].affected_share == pytest.approx(0.07)


def test_a_straggler_that_a_pause_hides_now_and_then_keeps_its_cost():
    pause = acts(4, [0, 1, 2, 3], EVERY_20)
    slow = acts(4, [1], ALL) & ~pause
    own = pause.copy()
    own[0] = False
    extra = {"forward": acts(4, [1], ALL) * 30.0, "outside": own * 300.0}
    work = simulated(STEPS, 4, extra_ms=extra)

    found = launch_causes(
        work, [[cause(slow)], [cause(pause, kind=PAUSE, pattern=PERIODIC, phase="outside")]]
    )

    assert ms(found.named[0], work) == pytest.approx(30.0, rel=0.06)
    assert ms(found.named[1], work) == pytest.approx(15.0, rel=0.02)


@pytest.mark.parametrize("share", [0.3, 0.45])
def test_stalls_of_a_straggler_take_none_of_its_cost_however_often_they_are(share):
    chance = np.random.default_rng(3)
    stalls = np.sort(chance.permutation(STEPS)[: round(share * STEPS)])
    always, now_and_then = acts(2, [1], ALL), acts(2, [1], stalls)
    always[0] = now_and_then[0] = False
    extra_ms = {"backward": always * 20.0, "data": now_and_then * 70.0}
    work = simulated(STEPS, 2, extra_ms=extra_ms)
    named = [
        [cause(now_and_then, pattern=IRREGULAR)],
        [cause(always & ~now_and_then, phase="backward")],
    ]
    rare, lasting = launch_causes(work, named).named
    assert ms(rare, work) == pytest.approx(70.0 * now_and_then[1:].any(axis=1).mean(), rel=0.05)
    assert ms(lasting, work) == pytest.approx(20.0, rel=0.05)


def test_unnamed_differences_are_jitter():
    work = simulated(STEPS, 8, noise=0.1)

    found = launch_causes(work, [])

    even = (work.own_before_sync + np.roll(work.own_after_release, 1, axis=0))[1:]
    usual = np.sort(np.median(even, axis=0))[3]
    low, high = np.sort(even, axis=1)[:, 3:5].T
    expected = (even.max(axis=1) - np.clip(usual, low, high)).mean() / 1e6
    assert ms(found.jitter, work) == pytest.approx(expected, rel=0.02)
    assert ms(found.transfer, work) == pytest.approx(5.0, rel=1e-6)


def test_two_stragglers_that_hide_each_other_share_their_cost():
    affected = acts(4, [1], ALL), acts(4, [2], ALL)
    extra = {"forward": sum(one * 40.0 for one in affected)}
    work = simulated(STEPS, 4, extra_ms=extra, noise=0.001)

    found = launch_causes(work, [[cause(one)] for one in affected])

    assert [ms(one, work) for one in found.named] == pytest.approx([20.0, 20.0], rel=0.05)
    assert all(one.saved_if_removed < 0.1 * one.share for one in found.named)


def test_gaps_between_the_steps_leave_the_sums_exact():
    affected = acts(3, [1], ALL)
    work, _ = delayed(affected, 40.0)
    work.follows[[50, 120, 121]] = False
    own = cause(affected & work.follows[:, None])

    found = launch_causes(work, [[own]])

    assert whole(found) == pytest.approx(1, abs=1e-12)
    assert ms(found.named[0], work) == pytest.approx(40.0, rel=0.05)


def test_a_pause_in_a_step_behind_one_that_does_not_count_has_its_full_cost():
    slow = np.arange(12, STEPS, 12)
    extra = np.zeros((STEPS, 2))
    extra[slow] = 150.0
    work = without_steps(simulated(STEPS, 2, extra_ms={"outside": extra}, noise=0.001), slow - 1)
    affected = np.isin(work.steps, slow + 1)[:, None] & np.ones(2, dtype=bool)
    own = replace(cause(affected, kind=PAUSE, pattern=PERIODIC, phase="outside"), affected=affected)

    found = launch_causes(work, [[own]])

    assert whole(found) == pytest.approx(1, abs=1e-12)
    assert ms(found.named[0], work) == pytest.approx(150 * len(slow) / len(work.steps), rel=0.005)
    assert found.jitter.share < 0.001


def test_the_own_times_split_exactly():
    affected = acts(5, [1, 2], EVERY_20)
    work, _ = delayed(affected, 90.0)
    own = rank_times(work).length.T

    delays = delays_of(own, [[cause(affected, pattern=PERIODIC)], []])

    again = delays.normal + delays.jitter + sum(delays.named)
    np.testing.assert_allclose(again, own, rtol=1e-12)
    assert not delays.named[1].any()


def test_a_launch_of_one_rank_has_normal_time_and_transfer_alone():
    work = simulated(STEPS, 1)

    found = launch_causes(work, [])

    assert found.jitter.share == 0
    assert whole(found) == pytest.approx(1, abs=1e-12)


FSDP_STEP = fsdp_step(2)


def clipped(extra_ms):
    """FSDP2 whose ranks agree on the norm of the gradients before the update."""
    pieces = (*FSDP_STEP, Piece("before_update", 0.5, USER))
    own = own_work(pieces, (60, 2), extra_ms={len(FSDP_STEP): np.array([0.0, extra_ms])})
    return launch_of(pieces, own).work


def unscaled(extra_ms):
    """FSDP2 whose ranks do something on their own between their last wait and the update."""
    extra = np.array([0.0, extra_ms])
    own = own_work(FSDP_STEP, (60, 2), extra_ms={len(FSDP_STEP): extra})
    launch = launch_of(FSDP_STEP, own)
    before_ns = extra[launch.steps["rank"].to_numpy()] * MS
    steps = launch.steps.assign(
        optimizer_ns=launch.steps["optimizer_ns"] - before_ns,
        before_update_ns=launch.steps["before_update_ns"] + before_ns,
    )
    return replace(launch, steps=steps.astype(launch.steps.dtypes)).work


@pytest.mark.heavy
@pytest.mark.parametrize("launch", [clipped, unscaled])
def test_a_delay_before_the_update_of_fsdp_has_its_phase_and_its_cost(launch):
    work = launch(30.0)
    times = rank_times(work)

    (named,) = named_causes(times)
    assert (named.ranks, named.phase) == ((1,), "before_update")
    found = causes_module.launch_causes(times, [[named]])
    assert ms(found.named[0], work) == pytest.approx(30.0, rel=0.1)
    assert whole(found) == pytest.approx(1, abs=1e-12)
    assert named_causes(rank_times(launch(0.0))) == ()
