"""Races and checks: who is dropped, who is named, and how often that is wrong."""

import math

import numpy as np
import pytest

from hvdprof.analyze.tune.finals import BEST, TOGETHER, Finals
from hvdprof.analyze.tune.racing import PRESENT, Race, RaceRules
from hvdprof.model.results.tuning import Candidate, TrialOutcome
from tests.builders.simulated_races import Noise, candidates, simulated_race

NUM_RACES = 1_000
LITTLE, USUAL, MUCH = (Noise(spread, shared=0.05) for spread in (0.01, 0.03, 0.08))
TAILED = Noise(0.04, shared=0.05, heavy_tails=True)


def times_of(rounds, **gains):
    """Times of settings with small known noise that has no pattern with the settings."""
    random = np.random.default_rng(5)
    return {
        name: {
            number: math.log1p(-gain) + 0.002 * float(random.normal())
            for number in range(1, rounds + 1)
        }
        for name, gain in {PRESENT: 0.0, **gains}.items()
    }


def outcomes(race):
    return {one.candidate.name: one.outcome for one in race.standings}


def share_named(gains, noise, num=NUM_RACES, seed=3):
    random = np.random.default_rng(seed)
    return sum(bool(simulated_race(random, gains, noise).named) for _ in range(num)) / num


@pytest.mark.slow
@pytest.mark.parametrize("num", [1, 6])
@pytest.mark.parametrize("noise", [LITTLE, USUAL, MUCH, TAILED], ids=str)
def test_with_nothing_to_gain_a_winner_is_named_in_at_most_5_percent(num, noise):
    assert share_named([0.0] * num, noise) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "noise", "power"),
    [(0.05, LITTLE, 0.95), (0.1, USUAL, 0.95), (0.05, USUAL, 0.5), (0.3, MUCH, 0.95)],
    ids=str,
)
def test_a_gain_among_settings_that_gain_nothing_is_found(gain, noise, power):
    random = np.random.default_rng(4)
    races = [simulated_race(random, [0.0, gain, 0, 0, -0.2, 0], noise) for _ in range(300)]
    assert np.mean(["c1" in one.named for one in races]) >= power
    named = [one for one in races if one.measured is not None]
    inside = [one.measured[1] <= one.gain <= one.measured[2] for one in named]
    assert np.mean(inside) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.03, 0.05, 0.08])
def test_settings_without_effect_are_named_beside_the_best_in_at_most_5_percent(noise):
    random = np.random.default_rng(4)
    gains = [0, 0.3, 0, 0, 0, 0, 0, 0]
    races = [simulated_race(random, gains, Noise(noise, shared=0.05)) for _ in range(300)]
    named = [one.named for one in races if one.named]
    assert np.mean([one != ("c1",) for one in named]) <= 0.05


@pytest.mark.slow
def test_two_settings_that_both_gain_are_named_together():
    random = np.random.default_rng(7)
    races = [simulated_race(random, [0, 0.3, 0.15, 0], USUAL) for _ in range(100)]
    assert np.mean([set(one.named) == {"c1", "c2"} for one in races]) >= 0.8


@pytest.mark.slow
def test_the_measured_gain_of_a_winner_is_not_too_large():
    """Where several gain the same, the winner of the race is the luckiest one."""
    random = np.random.default_rng(9)
    races = [simulated_race(random, [0, 0.15, 0, 0, 0], MUCH) for _ in range(600)]
    named = [one for one in races if one.named == ("c1",)]
    error = np.mean([one.measured[0] - one.gain for one in named])
    # Named are only those whose check was lucky enough: some of its luck stays in the gain.
    assert abs(error) < 0.018


@pytest.mark.slow
def test_the_best_candidate_is_dropped_in_at_most_5_percent_of_races():
    random = np.random.default_rng(8)
    races = [simulated_race(random, [0.0, 0.04, 0, 0], USUAL) for _ in range(NUM_RACES)]
    assert np.mean([one.standings[1].outcome is not None for one in races]) <= 0.05


def test_what_is_surely_worse_or_gains_nothing_is_dropped_after_two_rounds():
    race = Race(candidates(4), RaceRules(0.02, 6))
    race.look(times_of(2, c0=0.3, c1=0.0, c2=-0.3, c3=0.0))
    assert outcomes(race)["c2"] is TrialOutcome.WORSE
    race.look(times_of(6, c0=0.3, c1=0.0, c2=-0.3, c3=0.0))
    assert outcomes(race) == {
        "c0": None,
        "c1": TrialOutcome.NO_GAIN,
        "c2": TrialOutcome.WORSE,
        "c3": TrialOutcome.NO_GAIN,
    }
    assert race.is_decided
    assert [one.name for one in race.finalists()] == ["c0"]


def test_an_alternative_that_is_surely_not_better_than_the_fastest_is_outrun():
    race = Race(candidates(3), RaceRules(0.02, 6))
    race.look(times_of(5, c0=0.4, c1=0.2, c2=0.1))
    assert outcomes(race) == {"c0": None, "c1": TrialOutcome.OUTRUN, "c2": None}
    assert [one.name for one in race.finalists()] == ["c0", "c2"]


def test_after_one_round_nothing_is_known_of_one_candidate():
    race = Race(candidates(1), RaceRules(0.02, 6))
    race.look(times_of(1, c0=0.5))
    (standing,) = race.standings
    assert standing.outcome is None and not standing.is_ahead
    assert (standing.gain.low, standing.gain.high) == (-math.inf, math.inf)


def test_a_candidate_without_a_result_stays_unknown_and_is_no_finalist():
    race = Race(candidates(2), RaceRules(0.02, 6))
    times = times_of(3, c0=0.2)
    race.look(times)
    standing = race.standings[1]
    assert math.isnan(standing.gain.value) and standing.num_rounds == 0
    race.drop("c1", TrialOutcome.FAILED)
    assert race.racing == {"c0"}
    assert [one.name for one in race.finalists()] == ["c0"]


def test_what_takes_four_times_as_long_is_dropped_after_its_first_round():
    race = Race(candidates(2), RaceRules(0.02, 6))
    race.look(times_of(1, c0=-3.5, c1=-2.5))
    assert outcomes(race) == {"c0": TrialOutcome.WORSE, "c1": None}


def test_the_noise_of_what_is_far_slower_widens_no_other_interval():
    race = Race(candidates(3), RaceRules(0.02, 6))
    times = times_of(2, c0=0.3, c1=0.1, c2=-5.0)
    times["c2"][2] += 2.0
    race.look(times_of(1, c0=0.3, c1=0.1, c2=-5.0))
    race.look(times)
    assert outcomes(race)["c2"] is TrialOutcome.WORSE
    assert race.standings[0].gain.low > 0.2


def test_the_interval_of_a_gain_is_that_of_the_time_per_sample():
    race = Race(candidates(1), RaceRules(0.02, 2))
    race.look({PRESENT: {1: 0.0, 2: 0.1}, "c0": {1: math.log(0.5), 2: 0.1 + math.log(0.5)}})
    gain = race.standings[0].gain
    assert gain.value == pytest.approx(0.5)
    assert gain.low == pytest.approx(0.5) and gain.high == pytest.approx(0.5)


def test_one_finalist_is_checked_alone_and_several_together_as_well():
    one, _, other = candidates(3)
    assert list(Finals([one], margin=0.02, most_repeats=10).entries) == [BEST]
    finals = Finals([one, other], margin=0.02, most_repeats=10)
    assert finals.entries == {BEST: (one,), TOGETHER: (one, other)}
    assert finals.looks == (3, 6, 10)


@pytest.mark.parametrize(
    ("together", "winner"), [(0.3, TOGETHER), (0.2, BEST), (0.05, BEST)], ids=str
)
def test_all_together_win_where_they_gain_more_than_the_best_alone(together, winner):
    one, _, other = candidates(3)
    finals = Finals([one, other], margin=0.02, most_repeats=10)
    times = times_of(6, **{BEST: 0.2, TOGETHER: together})
    assert finals.winner(times) == winner


def test_a_lucky_difference_is_no_reason_to_set_more_than_the_best():
    one, _, other = candidates(3)
    finals = Finals([one, other], margin=0.02, most_repeats=10)
    best = {number: math.log(0.7) for number in range(1, 7)}
    shifts = (-0.2, 0.1, -0.2, 0.1, -0.15, 0.1)
    together = {number: best[number] + by for number, by in enumerate(shifts, start=1)}
    times = {PRESENT: dict.fromkeys(best, 0.0), BEST: best, TOGETHER: together}
    found = finals.confirmations(times)
    assert found[TOGETHER].gain.value - found[BEST].gain.value >= 0.02
    assert all(one.is_confirmed for one in found.values())
    assert finals.winner(times) == BEST
    assert not finals.is_decided(times, 6)
    assert finals.added(times).low < 0 < finals.added(times).high


def test_what_failed_too_often_cannot_win_and_is_not_waited_for():
    one, _, other = candidates(3)
    finals = Finals([one, other], margin=0.02, most_repeats=10)
    times = times_of(6, **{BEST: 0.2, TOGETHER: 0.4})
    assert finals.winner(times, {TOGETHER}) == BEST
    assert finals.winner(times, {BEST}) == TOGETHER
    assert finals.winner(times, {BEST, TOGETHER}) is None
    del times[TOGETHER]
    assert not finals.is_decided(times, 6)
    assert finals.is_decided(times, 6, {TOGETHER})


def test_a_gain_that_is_not_beyond_noise_is_not_confirmed():
    finals = Finals(candidates(1), margin=0.02, most_repeats=3)
    noisy = {
        PRESENT: {1: 0.0, 2: 0.0, 3: 0.0},
        BEST: {1: -0.3, 2: 0.1, 3: -0.1},
    }
    found = finals.confirmations(noisy)[BEST]
    assert not found.is_confirmed and not found.is_refuted
    assert finals.winner(noisy) is None
    assert not finals.is_decided(noisy, 3)


def test_a_gain_below_the_margin_is_refuted_and_decides():
    finals = Finals([Candidate(name="x")], margin=0.05, most_repeats=10)
    times = times_of(3, **{BEST: 0.01})
    assert finals.confirmations(times)[BEST].is_refuted
    assert finals.is_decided(times, 3)
    assert not finals.is_decided(times, 2)
    assert finals.winner(times) is None
