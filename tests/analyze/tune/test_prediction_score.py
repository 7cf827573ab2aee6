"""Tests for hvdprof.analyze.tune.prediction_score."""

import pytest

from hvdprof.analyze.tune.prediction_score import measured_gain, prediction_score
from hvdprof.model.results.tuning import Candidate, Check, Estimate, Trial, TrialOutcome

NAN = float("nan")


def trial(predicted, gain, *, width=0.02):
    """A candidate with gains as values; ``width`` is half of the measured interval."""
    candidate = Candidate(
        name="c", predicted=predicted and Estimate(predicted, predicted - 0.05, predicted + 0.05)
    )
    measured = None if gain is None else Estimate(gain, gain - width, gain + width)
    return Trial(candidate=candidate, outcome=TrialOutcome.NO_GAIN, gain=measured)


def test_a_prediction_is_covered_where_both_intervals_overlap() -> None:
    found = prediction_score([trial(0.2, 0.26), trial(0.2, 0.28), trial(0.4, 0.4), trial(0.1, 0.0)])
    assert (found.num_predicted, found.num_scored, found.num_covered) == (4, 4, 2)
    assert found.median_error == pytest.approx(0.07)
    assert found.bias == pytest.approx((-0.06 - 0.08 + 0.0 + 0.1) / 4)


def test_the_rank_correlation_compares_the_order_of_gains() -> None:
    same = prediction_score([trial(0.1, 0.3), trial(0.2, 0.31), trial(0.3, 0.5)])
    reverse = prediction_score([trial(0.1, 0.5), trial(0.2, 0.31), trial(0.3, 0.3)])
    assert same.rank_correlation == pytest.approx(1.0)
    assert reverse.rank_correlation == pytest.approx(-1.0)


def test_ties_get_their_mean_rank() -> None:
    found = prediction_score([trial(0.1, 0.2), trial(0.1, 0.3), trial(0.2, 0.4), trial(0.4, 0.5)])
    # Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4.
    assert found.rank_correlation == pytest.approx(0.9487, abs=1e-4)


def test_two_trials_have_no_order() -> None:
    assert prediction_score([trial(0.1, 0.2), trial(0.2, 0.3)]).rank_correlation is None


def test_gains_that_are_all_equal_have_no_order() -> None:
    assert prediction_score([trial(0.1, one) for one in (0.1, 0.2, 0.3)]).rank_correlation is None


@pytest.mark.parametrize("width", [NAN, float("inf"), 0.6])
def test_an_interval_that_agrees_with_anything_is_not_scored(width) -> None:
    found = prediction_score([trial(0.2, -3.9, width=width)])
    assert (found.num_predicted, found.num_scored, found.num_covered) == (1, 0, 0)
    assert found.median_error is None
    assert found.sentence == "No predicted gain was measured precisely enough to be scored."
    known = prediction_score([trial(0.2, -3.9, width=width), trial(0.2, 0.22)])
    assert (known.num_scored, known.num_covered) == (1, 1)


def test_trials_without_a_prediction_or_a_gain_are_not_scored() -> None:
    found = prediction_score([trial(None, 0.2), trial(0.2, None)])
    assert (found.num_predicted, found.num_scored, found.median_error) == (1, 0, None)
    assert found.sentence == "No predicted gain was measured."
    assert prediction_score([trial(None, 0.2)]).sentence == "No gain was predicted."


def test_the_sentence_holds_the_numbers() -> None:
    trials = [trial(0.3, 0.32), trial(0.1, 0.11), trial(0.05, 0.5), trial(0.02, 0.0)]
    assert prediction_score(trials).sentence == (
        "3 of 4 predicted gains agree with the measured interval: median error 2.0 points, bias "
        "-11.5 points, rank correlation 0.40."
    )


def check(gain, *names, width=0.02):
    """Fresh launches of these settings together."""
    measured = None if gain is None else Estimate(gain, gain - width, gain + width)
    return Check(names=names, gain=measured, num_repeats=5, is_confirmed=True)


def test_the_winner_is_scored_against_fresh_launches_and_not_its_lucky_race() -> None:
    lucky = trial(0.2, 0.4)
    assert prediction_score([lucky]).num_covered == 0
    found = prediction_score([lucky], [check(0.22, "c")])
    assert (found.num_scored, found.num_anew, found.num_covered) == (1, 1, 1)
    assert found.bias == pytest.approx(-0.02)
    assert found.sentence == (
        "1 of 1 predicted gain agrees with the measured interval: median error 2.0 points, bias "
        "-2.0 points. 1 measured gain of 1 is from the fresh launches after the race."
    )


@pytest.mark.parametrize(
    "beside",
    [check(0.22, "c", "d"), check(0.22, "d"), check(None, "c"), check(0.2, "c", width=NAN)],
)
def test_without_usable_fresh_launches_of_it_alone_the_race_counts(beside) -> None:
    raced = trial(0.2, 0.4)
    assert measured_gain(raced, [beside]) is raced.gain
    assert prediction_score([raced], [beside]).num_anew == 0


def test_the_sentence_says_what_is_too_wide_to_score() -> None:
    found = prediction_score([trial(0.2, 0.22), trial(0.2, 0.3, width=0.6)])
    assert found.num_scored == 1
    assert found.sentence.endswith(" 1 predicted gain has a measured interval too wide to score.")
