"""What a question assumes of the job, and which algorithm its collectives have, as sentences.

Tested in ``tests/analyze/predict/test_question_assumptions.py``.
"""

import math
from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.predict.collective_cost import Algorithm
from hvdprof.model.forecast import Question


def question_assumptions(question: Question, algorithm: str, probability: float) -> Iterator[str]:
    """One sentence for each.

    Args:
        question: What was asked.
        algorithm: Name of the algorithm or rule of the collectives; empty where unknown.
        probability: Its weight among all, given the measured collectives; NaN where not fitted.
    """
    if question.what_if:
        yield f"Assumed of the job: {', '.join(question.what_if)}."
    if not algorithm:
        return
    how = " (not fitted to measured allreduces)"
    if question.algorithm:
        how = " as asked"
    elif not math.isnan(probability):
        how = f", the best fit to the measured ones (probability {units.percent(probability, 0)})"
    yield f"Allreduces follow the algorithm {algorithm}{how}."
    if algorithm == Algorithm.PARAMETER_SERVER:
        yield "One parameter server takes the gradients of all ranks."
