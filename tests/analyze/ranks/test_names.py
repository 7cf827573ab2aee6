import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from hvdprof.analyze.ranks.named_cause import (
    FALSE_ALARMS,
    FOR_A_WHILE,
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
from hvdprof.api import analyze_run, load_run
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.builders import launch_patterns
from tests.builders.launch_patterns import (
    COUNTER_EXAMPLES,
    NOISES,
    PATTERNS,
    Scene,
    Shape,
    launch_of,
)
from tests.builders.recorded_runs import BESIDE_LOAD, unpacked
from tests.builders.step_works import simulated, without_steps

STEPS = 100


def found_in(
    make: Callable[[Shape], Scene], num_ranks: int, noise: str, seed: int = 0
) -> tuple[Scene, tuple[NamedCause, ...]]:
    shape = Shape(STEPS, num_ranks, np.random.default_rng([seed, num_ranks]))
    scene = make(shape)
    return scene, named_causes(rank_times(launch_of(scene, shape, noise, seed)))


LAUNCHES = tuple(itertools.product([2, 4, 8, 32], NOISES))
"""Number of ranks and noise of the launches in which each scene is tried."""


def is_named(scene: Scene, causes: tuple[NamedCause, ...], num_ranks: int) -> bool:
    """Whether there is one cause per truth, with its ranks, phase, pattern and period."""
    if len(causes) != len(scene.truths):
        return False
    for truth in scene.truths:
        own = [one for one in causes if truth.is_of_ranks(one, num_ranks)]
        if len(own) != 1 or own[0].phase != truth.phase or own[0].pattern not in truth.patterns:
            return False
        is_periodic = own[0].pattern == PERIODIC
        if is_periodic == math.isnan(own[0].period_steps):
            return False
        is_known = is_periodic and not math.isnan(truth.period)
        if is_known and own[0].period_steps != pytest.approx(truth.period):
            return False
    return True


def _late_at_the_end(core_losses):
    """Rank 1 computes for longer in most steps; rank 0 stalls three times in the last twenty."""
    extra = np.zeros((120, 2))
    extra[:, 1] = np.random.default_rng(0).uniform(2, 20, 120)
    extra[100:, 0] = 60.0
    extra[[106, 113], 0] = 0.0
    times = rank_times(simulated(120, 2, extra_ms={"forward": extra / 2, "backward": extra / 2}))
    return named_causes(dataclasses.replace(times, core_losses=core_losses))


def test_events_that_last_have_no_smaller_chance_than_all_of_them():
    named = {one.ranks: one for one in _late_at_the_end({})}

    assert named[0,].pattern == FROM_STEP
    # Any of two ranks has all three in a quarter of the launches, and the level is no surer.
    assert named[0,].chance == 0.25
    assert named[1,].chance <= FALSE_ALARMS


def test_events_that_chance_can_give_are_no_ranks_where_another_one_lacks_a_core():
    assert _late_at_the_end({1: 0.9}) == ()
    # A single stretch that lifts the mean of the rank beyond chance stays.
    extra = np.zeros((120, 2))
    extra[40:70, 0] = 80.0
    stalled = rank_times(simulated(120, 2, extra_ms={"forward": extra / 2, "backward": extra / 2}))
    (cause,) = named_causes(stalled)
    assert (cause.ranks, cause.pattern) == ((0,), FOR_A_WHILE)
    assert cause.chance <= FALSE_ALARMS


@pytest.mark.heavy
@pytest.mark.parametrize("make", PATTERNS, ids=lambda make: make.__name__)
def test_a_pattern_is_named_with_ranks_phase_and_period(make: Callable[[Shape], Scene]) -> None:
    wrong = []
    for num_ranks, noise in LAUNCHES:
        scene, causes = found_in(make, num_ranks, noise)
        if not is_named(scene, causes, num_ranks):
            wrong.append((num_ranks, noise, causes))
    assert wrong == []


@pytest.mark.heavy
@pytest.mark.parametrize("make", COUNTER_EXAMPLES, ids=lambda make: make.__name__)
def test_a_counter_example_names_nothing(make: Callable[[Shape], Scene]) -> None:
    named = {launch: found_in(make, *launch)[1] for launch in LAUNCHES}
    assert {launch: causes for launch, causes in named.items() if causes} == {}


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [2, 8])
def test_clean_launches_are_named_less_often_than_the_level_allows(num_ranks: int) -> None:
    runs = 300
    named = sum(
        bool(found_in(launch_patterns.nothing, num_ranks, noise, seed)[1])
        for noise in NOISES
        for seed in range(runs)
    )

    assert named <= 0.01 * runs * len(NOISES)


def test_ranks_alike_are_one_cause() -> None:
    extra = np.array([0, 0, 20.0, 20.0])

    (cause,) = named_causes(rank_times(simulated(100, 4, extra_ms={"backward": extra})))

    assert (cause.kind, cause.ranks, cause.phase) == (STRAGGLER, (2, 3), "backward")
    assert (cause.pattern, cause.num_events, cause.first_step) == (PERSISTENT, 100, 1)
    assert cause.affected.all(axis=0).tolist() == [False, False, True, True]


def test_events_are_counted_and_placed() -> None:
    extra = np.zeros((100, 8))
    extra[[5, 30, 31, 44, 80], 1] = 200.0

    (cause,) = named_causes(rank_times(simulated(100, 8, extra_ms={"backward": extra})))

    assert (cause.ranks, cause.phase, cause.pattern) == ((1,), "backward", IRREGULAR)
    assert (cause.num_events, cause.first_step) == (4, 6)
    assert np.flatnonzero(cause.affected[:, 1]).tolist() == [5, 30, 31, 44, 80]


def test_the_optimizer_is_that_of_the_step_before() -> None:
    extra = np.zeros((100, 4))
    extra[5::20, 1] = 200.0

    (cause,) = named_causes(rank_times(simulated(100, 4, extra_ms={"optimizer": extra})))

    assert cause.phase == "optimizer"
    assert np.flatnonzero(cause.affected[:, 1]).tolist() == [6, 26, 46, 66, 86]


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_rank_that_stops_longer_than_all_in_a_pause_is_named_beside_it(num_ranks: int) -> None:
    steps = np.arange(7, 100, 12)
    extra = np.zeros((100, num_ranks))
    extra[steps] = 320.0
    extra[steps, 0] = 600.0

    pause, longer = named_causes(rank_times(simulated(100, num_ranks, extra_ms={"outside": extra})))

    assert (pause.kind, pause.ranks, pause.period_steps) == (PAUSE, tuple(range(num_ranks)), 12)
    assert (longer.kind, longer.ranks, longer.period_steps) == (STRAGGLER, (0,), 12)
    assert (pause.phase, longer.phase) == ("outside", "outside")
    assert np.flatnonzero(longer.affected[:, 0]).tolist() == steps.tolist()


def test_a_rank_that_stops_little_longer_than_all_in_a_pause_is_not_named() -> None:
    extra = np.zeros((100, 2))
    extra[7::12] = 320.0
    extra[7::12, 0] = 380.0

    (pause,) = named_causes(rank_times(simulated(100, 2, extra_ms={"outside": extra})))

    assert pause.kind == PAUSE


@pytest.mark.parametrize("num", [3, 4, 5])
def test_irregular_stalls_that_all_fall_on_one_rank_are_its_own(num: int) -> None:
    extra = np.zeros((100, 2))
    extra[[7, 13, 40, 58, 91][:num], 1] = 300.0

    (cause,) = named_causes(rank_times(simulated(100, 2, extra_ms={"data": extra})))

    assert (cause.kind, cause.ranks, cause.num_events) == (STRAGGLER, (1,), num)


def test_short_stalls_of_any_rank_do_not_take_the_long_ones_from_their_rank() -> None:
    extra = np.zeros((100, 2))
    extra[[7, 13, 40, 91], 1] = 805.0
    extra[[21, 30, 62, 77], [0, 1, 0, 1]] = 45.0

    first, *others = named_causes(rank_times(simulated(100, 2, extra_ms={"outside": extra})))

    assert (first.kind, first.ranks, first.num_events) == (STRAGGLER, (1,), 4)
    assert np.flatnonzero(first.affected[:, 1]).tolist() == [7, 13, 40, 91]
    assert all(one.ranks == (0, 1) for one in others)


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_checkpoints_stay_those_of_their_rank_beside_stalls_of_any_rank(
    num_ranks: int, seed: int
) -> None:
    rng = np.random.default_rng([seed, num_ranks])
    extra = np.zeros((150, num_ranks))
    extra[19::20, 0] = rng.uniform(112.0, 150.0, 7)
    extra[rng.choice(150, 8, replace=False), rng.integers(num_ranks, size=8)] += 40.0

    first, *others = named_causes(
        rank_times(simulated(150, num_ranks, extra_ms={"outside": extra}, seed=seed))
    )

    assert (first.ranks, first.pattern, first.period_steps) == ((0,), PERIODIC, 20)
    assert others == []


def test_a_rank_with_most_of_the_time_of_irregular_stalls_is_named() -> None:
    extra = np.zeros((100, 2))
    stalled = [5, 7, 13, 26, 40, 44, 58, 71, 81, 94]
    extra[stalled, 1] = np.tile([200.0, 130.0, 170.0, 150.0, 120.0], 2)
    extra[[21, 62], 0] = [110.0, 40.0]

    (cause,) = named_causes(rank_times(simulated(100, 2, extra_ms={"outside": extra})))

    assert (cause.ranks, cause.pattern) == ((1,), IRREGULAR)
    assert np.flatnonzero(cause.affected[:, 0]).tolist() == []
    assert np.flatnonzero(cause.affected[:, 1]).tolist() == stalled


def test_few_stalls_make_no_rank_the_one_with_most_of_the_time() -> None:
    # Of two ranks that stall at random, one has as much of the time in 5 of 100 launches.
    extra = np.zeros((100, 2))
    extra[[7, 13, 40, 58, 81, 91], 1] = [200.0, 130.0, 170.0, 150.0, 120.0, 180.0]
    extra[[21, 62], 0] = [110.0, 40.0]

    (cause,) = named_causes(rank_times(simulated(100, 2, extra_ms={"outside": extra})))

    assert cause.ranks == (0, 1)


def test_one_long_stall_makes_no_rank_the_one_with_most_of_the_time() -> None:
    extra = np.zeros((100, 2))
    extra[[13, 40, 91], 1] = [900.0, 60.0, 70.0]
    extra[[21, 30, 62, 77], 0] = [50.0, 60.0, 55.0, 45.0]

    causes = named_causes(rank_times(simulated(100, 2, extra_ms={"outside": extra})))

    assert [one.ranks for one in causes] == [(0, 1)]


@pytest.mark.heavy
@pytest.mark.parametrize("num_ranks", [2, 3, 8])
@pytest.mark.parametrize("kind", ["bimodal", "exponential", "lognormal", "and periodic"])
def test_a_slow_rank_that_varies_is_the_only_one(num_ranks: int, kind: str) -> None:
    rng = np.random.default_rng([num_ranks, len(kind)])
    slow = num_ranks - 1
    for _ in range(10):
        extra = np.zeros((100, num_ranks))
        extra[:, slow] = {
            "bimodal": 40.0 + 40.0 * (rng.random(100) < 0.25),
            "exponential": rng.exponential(40.0, 100),
            "lognormal": rng.lognormal(np.log(30.0), 0.6, 100),
            "and periodic": 30.0 + 200.0 * (np.arange(100) % 10 == 3),
        }[kind]
        causes = named_causes(rank_times(simulated(100, num_ranks, extra_ms={"data": extra})))
        assert {one.ranks for one in causes} == {(slow,)}
        assert causes[0].phase == "data"


def test_one_stall_of_another_rank_makes_them_any_ranks() -> None:
    extra = np.zeros((100, 2))
    extra[[7, 13, 40], 1] = 300.0
    extra[58, 0] = 300.0

    (cause,) = named_causes(rank_times(simulated(100, 2, extra_ms={"data": extra})))

    assert (cause.kind, cause.ranks, cause.num_events) == (STRAGGLER, (0, 1), 4)


@pytest.mark.parametrize("seed", [0, 1])
def test_events_of_any_rank_hide_no_rank_that_is_later_in_what_they_leave(seed: int) -> None:
    # As recorded beside other processes: both ranks stall, and rank 1 computes for longer.
    rng = np.random.default_rng(seed)
    extra = np.zeros((150, 2))
    extra[:, 1] = rng.gamma(0.5, 40.0, 150)
    for rank, number in ((0, 14), (1, 22)):
        extra[rng.choice(150, number, replace=False), rank] += 120.0
    times = rank_times(simulated(150, 2, extra_ms={"forward": extra / 2, "backward": extra / 2}))

    assert [one.ranks for one in named_causes(times)] == [(0, 1), (1,)]
    # What waits for a core explain is no rank's, and stays with the events of any rank.
    assert named_causes(dataclasses.replace(times, core_losses={1: 0.3})) == ()


def test_three_regular_stalls_are_enough() -> None:
    extra = np.zeros((60, 2))
    extra[[10, 30, 50], 0] = 300.0

    (cause,) = named_causes(rank_times(simulated(60, 2, extra_ms={"outside": extra})))

    assert (cause.ranks, cause.pattern, cause.period_steps) == ((0,), PERIODIC, 20)


def test_one_long_pause_is_named_and_a_short_one_is_not() -> None:
    extra = np.zeros((100, 4))
    extra[40] = 400.0
    assert named_causes(rank_times(simulated(100, 4, extra_ms={"outside": extra}))) == ()

    extra[40] = 3000.0
    (cause,) = named_causes(rank_times(simulated(100, 4, extra_ms={"outside": extra})))
    assert (cause.kind, cause.pattern, cause.num_events) == (PAUSE, IRREGULAR, 1)


def test_periods_of_a_clock_are_found_in_steps() -> None:
    extra = np.zeros((300, 4))
    extra[[20, 71, 119, 170, 221, 270], 2] = 600.0

    (cause,) = named_causes(rank_times(simulated(300, 4, extra_ms={"outside": extra})))

    assert (cause.ranks, cause.pattern) == ((2,), PERIODIC)
    assert cause.period_steps == pytest.approx(50, abs=0.5)


def test_the_first_step_of_a_slow_rank() -> None:
    extra = np.zeros((100, 4))
    extra[60:, 3] = 30.0

    (cause,) = named_causes(rank_times(simulated(100, 4, extra_ms={"forward": extra})))

    assert (cause.ranks, cause.pattern, cause.phase) == ((3,), FROM_STEP, "forward")
    assert cause.first_step == pytest.approx(61, abs=1)
    assert cause.num_events == pytest.approx(40, abs=1)


@pytest.mark.heavy
def test_causes_never_overlap() -> None:
    for make in PATTERNS:
        _, causes = found_in(make, 4, "correlated", seed=3)
        if causes:
            assert np.sum([one.affected for one in causes], axis=0).max() == 1


@pytest.mark.parametrize("noise", NOISES)
def test_a_launch_of_one_rank_has_pauses_alone(noise: str) -> None:
    shape = Shape(STEPS, 1, np.random.default_rng(5))
    assert named_causes(rank_times(launch_of(Scene(), shape, noise, 5))) == ()
    extra = shape.nothing()
    extra[9::10] = 60.0
    (cause,) = named_causes(rank_times(launch_of(Scene({"forward": extra}), shape, noise, 5)))

    assert (cause.kind, cause.ranks, cause.phase) == (PAUSE, (0,), "forward")
    assert (cause.pattern, cause.period_steps) == (PERIODIC, 10)


def test_a_launch_of_few_steps_names_nothing() -> None:
    assert named_causes(rank_times(simulated(7, 2, extra_ms={"data": np.array([0, 50.0])}))) == ()


def test_without_phases_a_delay_is_mixed() -> None:
    work = simulated(60, 2, extra_ms={"data": np.array([0, 30.0])})
    for part in work.parts.values():
        part[:] = 0.0

    (cause,) = named_causes(rank_times(work))

    assert (cause.ranks, cause.phase, math.isnan(cause.phase_share)) == ((1,), "mixed", True)


@pytest.mark.heavy
@pytest.mark.parametrize("num_slow", [8, 256])
def test_half_of_512_ranks_and_a_checkpoint_are_named(num_slow: int) -> None:
    extra = np.zeros((1000, 512))
    extra[::20, 0] = 500.0
    slow = np.zeros((1000, 512))
    slow[:, 256 : 256 + num_slow] = 20.0
    work = simulated(1000, 512, extra_ms={"outside": extra, "forward": slow})

    causes = named_causes(rank_times(work))

    ranks = {one.pattern: one.ranks for one in causes}
    assert ranks == {PERIODIC: (0,), PERSISTENT: tuple(range(256, 256 + num_slow))}


def test_slow_ranks_of_different_phases_are_two_causes() -> None:
    forward, data = np.zeros((100, 8)), np.zeros((100, 8))
    forward[:, 1], data[:, 4] = 20.0, 20.0

    causes = named_causes(
        rank_times(simulated(100, 8, extra_ms={"forward": forward, "data": data}))
    )

    assert {(one.ranks, one.phase) for one in causes} == {((1,), "forward"), ((4,), "data")}


@pytest.mark.parametrize(
    ("data_ms", "backward_ms", "phase"),
    [
        (40.0, 14.0, "data"),
        (30.0, 20.0, "mixed"),
        (10.0, 28.0, "mixed"),
        (2.0, 38.0, "backward"),
    ],
)
def test_a_phase_that_dominates_is_named(data_ms: float, backward_ms: float, phase: str) -> None:
    data, backward = np.zeros((100, 2)), np.zeros((100, 2))
    data[:, 1], backward[:, 1] = data_ms, backward_ms

    (cause,) = named_causes(
        rank_times(simulated(100, 2, extra_ms={"data": data, "backward": backward}))
    )

    assert (cause.ranks, cause.phase) == ((1,), phase)
    largest = max(data_ms, backward_ms)
    assert cause.phase_share == pytest.approx(largest / (data_ms + backward_ms), abs=0.03)


def test_steps_that_do_not_count_hide_no_period() -> None:
    # Validation after every 24 steps; the checkpoint of every 10th falls on its steps, too.
    extra = np.zeros((STEPS, 2))
    extra[9::10, 0] = 300.0
    work = without_steps(simulated(STEPS, 2, extra_ms={"outside": extra}), np.arange(23, STEPS, 24))

    (cause,) = named_causes(rank_times(work))

    assert (cause.ranks, cause.phase, cause.pattern) == ((0,), "outside", PERIODIC)
    assert cause.period_steps == 10
    assert cause.num_events == 10


def test_slow_steps_right_after_an_evaluation_are_one_pause_with_its_period() -> None:
    # Every 12th step contains the evaluation; it and the two after it are slow on all ranks.
    evaluates = np.arange(11, STEPS, 12)
    extra = np.zeros((STEPS, 2))
    extra[(evaluates[:, None] + np.arange(3)).ravel()] = 150.0
    work = without_steps(simulated(STEPS, 2, extra_ms={"outside": extra}), evaluates)

    (cause,) = named_causes(rank_times(work))

    assert (cause.kind, cause.pattern, cause.period_steps) == (PAUSE, PERIODIC, 12)
    assert cause.affected.sum() == 2 * 2 * len(evaluates)


def test_a_rank_that_evaluates_alone_is_named_with_its_evaluation() -> None:
    extra = np.zeros((STEPS, 2))
    extra[9::10, 0] = 300.0
    work = simulated(STEPS, 2, extra_ms={"outside": extra})

    (cause,) = named_causes(rank_times(dataclasses.replace(work, evaluates=extra > 0)))

    assert (cause.ranks, cause.phase, cause.period_steps) == ((0,), "evaluation", 10)
    assert cause.phase_share == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_stalls_of_a_rank_that_is_slower_anyway_are_no_more_than_they_are(num_ranks: int) -> None:
    chance = np.random.default_rng(7)
    stalls = np.sort(chance.permutation(160)[:48])
    late = np.zeros((160, num_ranks))
    late[:, 1] = 40.0 * chance.uniform(0.6, 1.4, 160)
    waits = np.zeros_like(late)
    waits[stalls, 1] = 140.0
    shape = Shape(160, num_ranks, chance)
    work = launch_of(Scene({"backward": late, "data": waits}), shape, NOISES[0], 7)

    found = {one.phase: one for one in named_causes(rank_times(work))}

    assert found.keys() == {"backward", "data"}
    assert found["backward"].pattern == PERSISTENT
    assert found["data"].pattern == IRREGULAR
    assert np.flatnonzero(found["data"].affected[:, 1]).tolist() == stalls.tolist()


def test_what_waits_for_a_core_explain_is_no_rank():
    # What comes and goes every 20 steps passes for a slow rank in blocks of fewer.
    walk = np.repeat(np.random.default_rng(1).uniform(0, 12, 10), 20)
    extra = np.stack([np.zeros(200), walk], axis=1)
    times = rank_times(simulated(200, 2, extra_ms={"forward": extra}))
    (cause,) = named_causes(times)
    lost = float(times.lateness[:, 1].mean()) / times.step_ns

    def named_beside(loss, rank=1):
        causes = named_causes(dataclasses.replace(times, core_losses={rank: loss}))
        return [one.ranks for one in causes]

    assert cause.ranks == (1,)
    assert named_beside(lost) == []
    # Those of another rank, and those of a quarter of the delay, explain nothing.
    assert named_beside(lost, rank=0) == named_beside(lost / 4) == [(1,)]

    # Those fall where all ranks compute, and not in the loading of one.
    loading = rank_times(simulated(200, 2, extra_ms={"data": extra}))
    loading = dataclasses.replace(loading, core_losses={1: lost})
    assert [one.ranks for one in named_causes(loading)] == [(1,)]


def test_a_rank_that_is_later_by_far_is_named_although_it_has_no_core():
    extra = np.stack([np.zeros(100), np.full(100, 9.0)], axis=1)
    times = rank_times(simulated(100, 2, extra_ms={"forward": extra}))
    (cause,) = named_causes(dataclasses.replace(times, core_losses={1: 0.9}))

    assert (cause.ranks, cause.pattern) == ((1,), PERSISTENT)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("recording", "ranks"), [("ddp-clean-beside-load", []), ("horovod-shared-core", ["1"])]
)
def test_recordings_beside_load(tmp_path, recording, ranks):
    assert recording in BESIDE_LOAD
    found = analyze_run(load_run(unpacked(recording, tmp_path)))

    rows = found.table(WATERFALL.name)
    assert rows.loc[rows["term"] == STRAGGLER, "ranks"].tolist() == ranks
    assert ("rank 1" in found.verdict.sentence) == bool(ranks)
