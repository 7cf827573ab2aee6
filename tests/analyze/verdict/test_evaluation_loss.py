import pandas as pd
import pytest

from hvdprof.analyze.verdict.evaluation_loss import evaluation_caveat, loss_beyond_steps
from hvdprof.analyze.verdict.largest_loss import largest_loss
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.analyze.verdict.test_largest_loss import cause
from tests.builders.finished_analysis import NAN, finding, verdict

CELL = {"model": "resnet18", "np": 2, "engine": "horovod"}
EXCLUDED = finding(id="evaluation-excluded", job_share=0.5, **CELL)
STRAGGLER = finding(
    id="evaluation-straggler",
    phrase="straggler in the evaluation (rank 1)",
    fix="split the evaluation evenly with a DistributedSampler",
    job_share=0.3,
    **CELL,
)
SENTENCE = (
    "Largest loss: straggler in the evaluation (rank 1), 30.0 % of the recorded time; fix: split "
    "the evaluation evenly with a DistributedSampler.",
    "Largest loss: straggler in the evaluation (rank 1), 30.0 % of the recorded time.",
)


def frame(*rows):
    return FINDINGS.frame(list(rows))


@pytest.mark.parametrize(("of_step", "is_larger"), [(0.55, True), (0.65, False)])
def test_the_larger_loss_of_the_job_is_named(of_step, is_larger):
    # Half of the job is training steps.
    rows = cause("exposed-transfer", of_step, saved_if_removed_share=of_step)

    found = largest_loss(rows, frame(EXCLUDED, STRAGGLER), pd.Series(CELL))

    assert (found.sentence == SENTENCE) == is_larger
    assert found.share == of_step


def test_without_a_loss_in_steps_it_is_named_too():
    none = cause("exposed-transfer", 0.01)

    assert largest_loss(none, frame(EXCLUDED, STRAGGLER), pd.Series(CELL)).sentence == SENTENCE
    assert largest_loss(none, frame(EXCLUDED), pd.Series(CELL)) is None


def test_findings_on_other_cells_say_nothing():
    other = frame({**STRAGGLER, "np": 4}, finding(job_share=NAN))

    assert loss_beyond_steps(other, pd.Series(CELL), NAN) is None
    assert evaluation_caveat(other, verdict(**CELL)) == ()


def test_the_rate_is_not_that_of_the_whole_job():
    (caveat,) = evaluation_caveat(frame(EXCLUDED, STRAGGLER), verdict(**CELL))
    assert caveat.text == (
        "Evaluation takes 50.0 % of the recorded time and is in no rate or step time: the whole "
        "job is slower."
    )
