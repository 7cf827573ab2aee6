"""The jobs of benchmarks.tune_jobs, and how a tuning of them is judged."""

from dataclasses import replace

from benchmarks.tune_jobs import JOBS, outcomes, predictions
from hvdprof.model.results.tuning import Candidate, Estimate, Trial, TrialOutcome, Tuning

CYCLE, NOTHING = JOBS[0], JOBS[-1]


def tuning(environment: dict[str, str], *trials: Trial) -> Tuning:
    """A finished tuning that names these variables."""
    gain = Estimate(0.5, 0.4, 0.6) if environment else None
    return Tuning(
        sentence="",
        caveat="",
        status="done",
        command=("python", "train.py"),
        num_ranks=2,
        present="",
        environment=environment,
        options={},
        arguments=(),
        line=" ".join(f"{name}={value}" for name, value in environment.items()),
        gain=gain,
        beyond=None,
        margin=0.02,
        confidence=0.95,
        trials=trials,
        checks=(),
        score=None,
        elapsed_s=90.0,
        folder="runs/tune",
    )


def test_a_job_is_solved_by_a_good_value_of_its_variable() -> None:
    assert CYCLE.is_solved(tuning({"HOROVOD_CYCLE_TIME": "1"}))
    assert not CYCLE.is_solved(tuning({"HOROVOD_CYCLE_TIME": "25"}))
    assert not CYCLE.is_solved(tuning({}))


def test_a_job_with_nothing_to_gain_is_solved_by_nothing() -> None:
    assert NOTHING.is_solved(tuning({}))
    assert not NOTHING.is_solved(tuning({"HOROVOD_CYCLE_TIME": "0.1"}))


def test_the_tables_hold_outcome_and_predictions() -> None:
    candidate = Candidate(name="HOROVOD_CYCLE_TIME=1", predicted=Estimate(0.45, 0.4, 0.5))
    trial = Trial(
        candidate=candidate,
        outcome=TrialOutcome.CONFIRMED,
        gain=Estimate(0.55, 0.52, 0.58),
        num_rounds=3,
    )
    wide = replace(trial, gain=Estimate(0.4, -0.9, 1.0))
    found = {CYCLE: tuning({"HOROVOD_CYCLE_TIME": "1"}, wide, trial)}
    assert list(outcomes(found))[-1] == (
        "| cycle of 50 ms | 2 | `HOROVOD_CYCLE_TIME=1` | 50 % (40 to 60) | yes | 1.5 |"
    )
    assert list(predictions(found))[-2].endswith("| 40 % (-90 to 100) | - |")
    assert list(predictions(found))[-1] == (
        "| cycle of 50 ms | `HOROVOD_CYCLE_TIME=1` | 45 % (40 to 50) | 55 % (52 to 58) | no |"
    )
