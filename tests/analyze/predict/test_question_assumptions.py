import math

from hvdprof.analyze.predict.question_assumptions import question_assumptions
from hvdprof.model.forecast import Question

MEASURED = Question(sizes=(8,))


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
