import math
from dataclasses import replace

from hvdprof.analyze.predict.forecast_basis import question_assumptions, run_assumptions
from hvdprof.model.results.forecast import Question
from tests.builders.predicted_jobs import stated_job

MEASURED = Question(sizes=(8,))


def test_a_compute_slowdown_is_partly_of_communication() -> None:
    slow, even = (list(run_assumptions(stated_job(slowdown=share))) for share in (0.1, 0.0))

    assert any(one.startswith("Compute is slower than on one rank.") for one in slow)
    assert not any("slower" in one for one in even)


def test_one_measured_rank_shows_no_difference() -> None:
    job = stated_job()
    alone = replace(job, spread=replace(job.spread, num_ranks=1))
    several = replace(job, spread=replace(job.spread, num_ranks=3))

    assert any("is assumed: only one measured rank" in one for one in run_assumptions(alone))
    assert any("as the 3 measured ranks;" in one for one in run_assumptions(several))


def test_the_fitted_algorithm_has_its_probability() -> None:
    (said,) = question_assumptions(MEASURED, "gloo", 0.83)
    assert said.startswith("Allreduces follow the algorithm gloo, the best fit to the measured ")
    assert said.endswith("(probability 83 %).")


def test_an_algorithm_that_nothing_was_fitted_to_is_said() -> None:
    (said,) = question_assumptions(MEASURED, "ring", math.nan)
    assert said == "Allreduces follow the algorithm ring (not fitted to measured allreduces)."
    assert list(question_assumptions(MEASURED, "", math.nan)) == []


def test_changes_of_the_job_and_the_number_of_servers_are_named() -> None:
    asked = Question(sizes=(8,), algorithm="parameter-server", settings={"batch": "8"})
    assert list(question_assumptions(asked, "parameter-server", math.nan)) == [
        "Assumed of the job: batch=8, the algorithm parameter-server.",
        "Allreduces follow the algorithm parameter-server as asked.",
        "One parameter server takes the gradients of all ranks.",
    ]
