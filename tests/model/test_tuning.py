"""Tests for hvdprof.model.results.tuning."""

import json

from hvdprof.model.results.tuning import Candidate, Estimate, Trial, TrialOutcome
from hvdprof.rundir.json_codec import decode, to_text


def test_candidates_that_set_the_same_variable_are_alternatives() -> None:
    one = Candidate(name="1", environment={"HOROVOD_CYCLE_TIME": "1"})
    five = Candidate(name="5", environment={"HOROVOD_CYCLE_TIME": "5", "OMP_NUM_THREADS": "1"})
    gloo = Candidate(name="gloo", options={"controller": "gloo"})
    assert one.is_alternative_to(five)
    assert not one.is_alternative_to(gloo)
    fp16 = Candidate(name="fp16", arguments=("--fp16-allreduce",))
    assert fp16.is_alternative_to(Candidate(name="no", arguments=("--fp16-allreduce=no", "1")))
    assert not fp16.is_alternative_to(one)
    assert five.knobs == {"HOROVOD_CYCLE_TIME", "OMP_NUM_THREADS"}


def test_a_trial_is_the_same_after_json() -> None:
    trial = Trial(
        candidate=Candidate(
            name="fp16",
            options={"compression": "fp16", "num_threads": 2, "trace": False},
            changes_numerics=True,
            predicted=Estimate(0.1, 0.05, 0.2),
        ),
        outcome=TrialOutcome.FAILED,
        reason="rank 1 exited with 1",
    )
    assert decode(Trial, json.loads(to_text(trial)), "trial") == trial
