"""From a race and its check to the verdict."""

import math

import pytest

from hvdprof.analyze.tune import tuning_result
from hvdprof.analyze.tune.finals import BEST, TOGETHER, Finals, LaunchCount, Raced, joined
from hvdprof.analyze.tune.racing import PRESENT, RaceStanding
from hvdprof.model.results.tuning import Candidate, Estimate, Trial, TrialOutcome

CYCLE = Candidate(name="HOROVOD_CYCLE_TIME=1", environment={"HOROVOD_CYCLE_TIME": "1"})
FP16 = Candidate(name="--fp16", arguments=("--fp16",), changes_numerics=True)
GLOO = Candidate(name="controller gloo", options={"controller": "gloo"})
UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def standing(candidate, value=0.0, half=0.03, outcome=None, rounds=4):
    gain = Estimate(value, value - half, value + half)
    return RaceStanding(candidate, gain, rounds, outcome, is_ahead=False)


def times(**gains):
    jitter = (0.0, 0.004, -0.004, 0.002, -0.002, 0.0)
    return {
        name: {
            number: math.log1p(-gain) + shift * (gain != 0)
            for number, shift in enumerate(jitter, start=1)
        }
        for name, gain in {PRESENT: 0.0, **gains}.items()
    }


def raced(*standings, finals=(), **fields):
    check = Finals(finals, margin=0.02, most_repeats=6) if finals else None
    return Raced(margin=0.02, standings=standings, finals=check, **fields)


def test_a_confirmed_gain_is_named_with_its_interval_and_the_throughput():
    found = raced(standing(CYCLE, 0.45), finals=[CYCLE], check_times=times(best=0.4))
    text = tuning_result.sentence(found, "HOROVOD_CYCLE_TIME=1", "done")
    assert text.startswith("Set HOROVOD_CYCLE_TIME=1: step time -40.0 % (95 % CI -40.")
    assert text.endswith("throughput +66.7 %.")
    assert found.named == (CYCLE,)
    assert [one.outcome for one in tuning_result.trials(found)] == ["confirmed"]
    (check,) = tuning_result.checks(found)
    assert check.is_confirmed and check.num_repeats == 6


def test_nothing_to_gain_names_the_largest_gain_that_is_not_excluded():
    found = raced(standing(CYCLE, -0.01), standing(GLOO, 0.005, half=0.02))
    text = tuning_result.sentence(found, "", "done")
    assert text == (
        "Nothing to gain beyond 2.5 % of the step time: no gain of 2 settings is beyond noise."
    )
    assert tuning_result.beyond(found) == pytest.approx(0.025)


def test_a_gain_of_the_race_that_the_check_lacks_is_not_confirmed():
    found = raced(standing(CYCLE, 0.14, half=0.04), finals=[CYCLE], check_times=times(best=-0.2))
    text = tuning_result.sentence(found, "", "done")
    assert text.endswith(" of the step time: no gain of 1 setting is confirmed by the check.")


def test_where_large_gains_are_not_excluded_nothing_is_decided():
    text = tuning_result.sentence(raced(standing(CYCLE, 0.01, half=0.3)), "", "done")
    assert text == (
        "Undecided: no gain of 1 setting is beyond noise, and gains of up to 31.0 % of the step "
        "time are not excluded. Measure on a less busy machine, or with longer launches."
    )


def test_the_check_of_the_best_lowers_the_limit_of_its_lucky_race():
    found = raced(standing(CYCLE, 0.05), finals=[CYCLE], check_times=times(best=0.001))
    assert found.winner is None
    assert tuning_result.beyond(found) == pytest.approx(0.005, abs=0.004)
    (trial,) = tuning_result.trials(found)
    assert trial.outcome == "not confirmed"


def test_what_adds_nothing_to_the_best_is_not_named():
    found = raced(
        standing(CYCLE, 0.4),
        standing(GLOO, 0.03),
        finals=[CYCLE, GLOO],
        check_times=times(**{BEST: 0.4, TOGETHER: 0.405}),
    )
    assert found.named == (CYCLE,)
    last = tuning_result.trials(found)[-1]
    assert (last.outcome, last.reason) == (
        "not confirmed",
        "adds less than 2 % to HOROVOD_CYCLE_TIME=1",
    )


@pytest.mark.parametrize(
    ("together", "reason"),
    [
        ({}, "no gain beside HOROVOD_CYCLE_TIME=1 is beyond noise"),
        (
            {1: -0.7, 2: -0.4, 3: -0.7, 4: -0.4, 5: -0.7, 6: -0.4},
            "no gain beside HOROVOD_CYCLE_TIME=1 is beyond noise",
        ),
    ],
    ids=["crashed", "noisy"],
)
def test_little_is_added_only_where_the_difference_is_measured(together, reason):
    found = raced(
        standing(CYCLE, 0.4),
        standing(GLOO, 0.03),
        finals=[CYCLE, GLOO],
        check_times={**times(best=0.4), TOGETHER: together},
    )
    assert found.named == (CYCLE,)
    assert tuning_result.trials(found)[-1].reason == reason


def test_a_setting_that_fails_in_the_check_is_not_named():
    found = raced(
        standing(CYCLE, 0.4),
        finals=[CYCLE],
        check_times=times(best=0.4),
        check_reasons={BEST: "rank 0 exited with code 1"},
        given_up=frozenset({BEST}),
    )
    assert found.named == ()
    (trial,), (check,) = tuning_result.trials(found), tuning_result.checks(found)
    assert (trial.outcome, trial.reason) == ("failed", "rank 0 exited with code 1")
    assert not check.is_confirmed
    assert tuning_result.sentence(found, "", "done") == "Nothing is known: every setting failed."
    assert list(tuning_result.caveats(found)) == ["HOROVOD_CYCLE_TIME=1 failed."]
    assert tuning_result.beyond(found) is None


def test_all_together_that_fail_leave_the_best_alone():
    found = raced(
        standing(CYCLE, 0.4),
        standing(GLOO, 0.2),
        finals=[CYCLE, GLOO],
        check_times=times(**{BEST: 0.4, TOGETHER: 0.5}),
        check_reasons={TOGETHER: "rank 0 exited with code 1"},
        given_up=frozenset({TOGETHER}),
    )
    assert found.named == (CYCLE,)
    assert tuning_result.trials(found)[-1].reason == "all settings together failed"
    assert list(tuning_result.caveats(found)) == [
        "All settings together failed: rank 0 exited with code 1."
    ]


def test_failed_launches_of_what_is_named_are_a_caveat():
    found = raced(
        standing(CYCLE, 0.4),
        finals=[CYCLE],
        check_times=times(best=0.4),
        reasons={CYCLE.name: "rank 1 exited with code 3"},
        launches={CYCLE.name: LaunchCount(4, 1)},
        check_launches={BEST: LaunchCount(6, 0)},
    )
    assert list(tuning_result.caveats(found)) == [
        "1 of 10 launches of HOROVOD_CYCLE_TIME=1 failed: rank 1 exited with code 3."
    ]
    (trial,) = tuning_result.trials(found)
    assert (trial.outcome, trial.reason) == ("confirmed", "rank 1 exited with code 3")


def test_what_is_far_slower_or_failed_does_not_widen_the_limit():
    slow = standing(CYCLE, -7.0, half=math.inf, outcome=TrialOutcome.WORSE, rounds=1)
    crash = standing(FP16, 0.1, half=math.inf, outcome=TrialOutcome.FAILED, rounds=1)
    found = raced(slow, crash, standing(GLOO, 0.005, half=0.02))
    assert tuning_result.beyond(found) == pytest.approx(0.025)
    assert tuning_result.sentence(found, "", "done").startswith("Nothing to gain beyond 2.5 %")
    assert tuning_result.beyond(raced(crash)) is None


def test_where_all_are_slower_there_is_nothing_to_gain():
    slow = standing(CYCLE, -7.0, half=math.inf, outcome=TrialOutcome.WORSE, rounds=1)
    text = tuning_result.sentence(raced(slow), "", "done")
    assert text == "Nothing to gain: 1 setting tried, none faster than the present one."


def test_a_setting_that_changes_the_arithmetic_reports_the_loss_or_its_absence():
    fields = {"finals": [FP16], "check_times": times(best=0.2)}
    without = " ".join(tuning_result.caveats(raced(standing(FP16, 0.2), **fields)))
    assert without == ("--fp16 changes the arithmetic, and the script recorded no loss to compare.")
    losses = {BEST: Estimate(0.012, -0.01, 0.03)}
    known = raced(standing(FP16, 0.2), check_losses=losses, **fields)
    assert " ".join(tuning_result.caveats(known)) == (
        "--fp16 changes the arithmetic: final loss +1.2 % (-1.0 % to +3.0 %)."
    )


def test_a_failed_setting_is_an_outcome_with_its_cause():
    failed = RaceStanding(GLOO, UNKNOWN, 0, TrialOutcome.FAILED, is_ahead=False)
    found = raced(failed, standing(CYCLE), reasons={GLOO.name: "rank 1 exited with code 3"})
    trial = tuning_result.trials(found)[-1]
    assert (trial.outcome, trial.reason, trial.gain) == (
        "failed",
        "rank 1 exited with code 3",
        None,
    )
    assert list(tuning_result.caveats(found)) == ["controller gloo failed."]


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (raced(), "done", "Nothing to try: no setting of this job can save as much as matters."),
        (
            raced(
                RaceStanding(GLOO, UNKNOWN, 0, TrialOutcome.FAILED, is_ahead=False),
                reasons={GLOO.name: "x"},
            ),
            "done",
            "Nothing is known: every setting failed.",
        ),
        (
            raced(standing(CYCLE, math.nan, rounds=0), reasons={CYCLE.name: ""}),
            "interrupted",
            "Nothing is known: no round of the race ended.",
        ),
        (
            raced(standing(CYCLE, math.nan, rounds=0), present_failed="rank 0 exited with code 1"),
            "failed",
            "Nothing is known: the present setting failed: rank 0 exited with code 1.",
        ),
        (
            raced(standing(CYCLE, 0.4), present_failed="rank 0 exited with code 1"),
            "failed",
            "Undecided: the present setting failed: rank 0 exited with code 1.",
        ),
        (
            raced(untried=(Trial(candidate=FP16, outcome="not tried", reason="no --allow"),)),
            "done",
            "Nothing was tried. Left out: --fp16 (no --allow).",
        ),
        (
            raced(
                untried=(Trial(candidate=FP16, outcome="not tried", reason="short"),),
                too_long_s=90.0,
            ),
            "done",
            "Nothing was tried: the shortest race takes about 1 min 30 s, more than the budget "
            "leaves. No gain is predicted for 1 setting.",
        ),
        (
            raced(standing(CYCLE, 0.4)),
            "interrupted",
            "Undecided: the tuning ended before its check did. HOROVOD_CYCLE_TIME=1 leads the "
            "race with 40.0 % of the step time.",
        ),
        (
            raced(standing(CYCLE, 0.0)),
            "interrupted",
            "Undecided: the tuning ended before its race did.",
        ),
        (
            raced(standing(CYCLE, 0.1, half=math.inf)),
            "done",
            "No gain shown by 1 setting; too few launches to state a limit.",
        ),
    ],
    ids=str,
)
def test_sentences_without_a_gain(given, status, text):
    assert tuning_result.sentence(given, "", status) == text


def test_open_ends_of_gains_are_nan():
    (trial,) = tuning_result.trials(raced(standing(CYCLE, 0.1, half=math.inf, rounds=1)))
    assert math.isnan(trial.gain.low) and math.isnan(trial.gain.high)


def test_trials_that_did_not_run_come_last():
    untried = Trial(candidate=FP16, outcome="not tried", reason="no")
    found = raced(standing(CYCLE), untried=(untried,))
    assert tuning_result.trials(found)[-1] == untried


def test_candidates_that_are_joined_set_what_all_of_them_set():
    found = joined([CYCLE, FP16, GLOO])
    assert found.name == "HOROVOD_CYCLE_TIME=1 + --fp16 + controller gloo"
    assert (found.environment, found.options, found.arguments) == (
        {"HOROVOD_CYCLE_TIME": "1"},
        {"controller": "gloo"},
        ("--fp16",),
    )
    assert found.changes_numerics
