"""What a tuning writes while it runs."""

import io
import math
from dataclasses import replace
from types import SimpleNamespace

from hvdprof.analyze.tune.racing import RaceStanding
from hvdprof.api import RacePlan
from hvdprof.api.tuning.candidates import Choice
from hvdprof.cli.tune import announce_tuning, tuning_progress
from hvdprof.model.results.tuning import Candidate, Estimate, TrialOutcome

CYCLE = Candidate(
    name="HOROVOD_CYCLE_TIME=1", why="The cycle is long.", predicted=Estimate(0.4, 0.3, 0.5)
)
GLOO = Candidate(name="controller gloo", why="gloo may be faster.")


def standing(candidate, value, outcome=None):
    gain = Estimate(value, -math.inf, math.inf)
    return RaceStanding(candidate, gain, 2, outcome, is_ahead=False)


def announced(*, planned_s=62.0, least_s=372.0, is_resumed=False, runs_to_its_end=False):
    out = io.StringIO()
    present = SimpleNamespace(
        has_secret=False,
        manifest=SimpleNamespace(name="a", passes=[1, 2], warnings=["slow host"]),
    )
    plan = SimpleNamespace(planned_s=planned_s, basis="no earlier run")
    announce_tuning(
        SimpleNamespace(
            command=("python", "a b.py"),
            present=present,
            num_ranks=2,
            folder="runs/t",
            budget_s=1200.0,
            is_resumed=is_resumed,
            runs_to_its_end=runs_to_its_end,
            estimate=lambda: (plan, least_s),
        ),
        out,
    )
    return out.getvalue()


def test_the_present_setting_is_announced_with_its_time():
    assert announced() == (
        "hvdprof: tuning python 'a b.py' on 2 ranks into runs/t\n"
        "  First the present setting: 2 launches, about 1 min 2 s (no earlier run).\n"
        "  Budget: 20 min in all.\n"
        "! slow host\n"
    )


def test_a_budget_below_the_estimate_says_what_happens_then():
    assert (
        "  Budget: 20 min in all.\n"
        "  With a race it takes about 25 min by this estimate: launches get fewer steps, or the "
        "predicted gains are shown.\n"
    ) in announced(least_s=1500.0)
    assert "estimate" not in announced(planned_s=None, least_s=0.0)
    assert "2 launches; time no earlier run." in announced(planned_s=None, least_s=0.0)
    assert "! Without --num-steps each launch runs" in announced(runs_to_its_end=True)


def test_a_resumed_tuning_measures_no_present_setting():
    text = announced(is_resumed=True, least_s=1500.0)
    assert "  The present setting is measured already.\n" in text
    assert "First" not in text and "estimate" not in text


def test_candidates_rounds_and_the_check_have_lines():
    out = io.StringIO()
    shown = tuning_progress(out)
    analysis = SimpleNamespace(verdict=SimpleNamespace(sentence="1,000 samples/s."))
    shown.present_measured(analysis, Choice((CYCLE,), (), ()), RacePlan(1, 4.0, 6, 10, 45))
    assert "Race: 1 setting beside the present one, 45 steps per launch, at most" in out.getvalue()
    out.seek(0)
    out.truncate()
    plan = RacePlan(2, 10.0, 6, 10)
    shown.present_measured(analysis, Choice((CYCLE, GLOO), (), ()), plan)
    dropped = standing(GLOO, -0.5, TrialOutcome.WORSE)
    shown.round_ended(1, [standing(CYCLE, math.nan), standing(GLOO, math.nan)])
    shown.round_ended(2, [standing(CYCLE, 0.4), dropped])
    shown.round_ended(3, [standing(CYCLE, 0.41), dropped])
    shown.check_started({"best": (CYCLE,), "together": (CYCLE, GLOO)})
    assert out.getvalue().splitlines() == [
        "Present setting: 1,000 samples/s.",
        "  HOROVOD_CYCLE_TIME=1: The cycle is long. Predicted gain 40.0 % (30.0 to 50.0).",
        "  controller gloo: gloo may be faster.",
        "Race: 2 settings beside the present one, at most 6 rounds, then a check of what wins; "
        "1 min to 8 min.",
        "  Round 2: controller gloo dropped, worse, gain -50.0 % (CI unknown)",
        "  Round 2: HOROVOD_CYCLE_TIME=1 leads, gain 40.0 % (CI unknown); 1 setting left",
        "  Round 3: HOROVOD_CYCLE_TIME=1 leads, gain 41.0 % (CI unknown); 1 setting left",
        "Check against the present setting: HOROVOD_CYCLE_TIME=1, HOROVOD_CYCLE_TIME=1 + "
        "controller gloo",
    ]
    shown.round_ended(4, [standing(CYCLE, -0.2)])
    assert "HOROVOD_CYCLE_TIME=1 is closest to the present setting, gain -20.0 %" in out.getvalue()
    shown.present_measured(analysis, Choice((CYCLE,), (), ()), replace(plan, left_s=70.0))
    assert "1 min to 1 min 10 s, the end of the budget." in out.getvalue()
