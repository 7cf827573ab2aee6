import math

import pytest

from hvdprof.model.job_losses import job_losses, share_of_job
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.builders.finished_analysis import NAN, finding

CELL = {"model": "resnet18", "np": 2, "engine": "horovod"}
EVALUATION = finding(id="evaluation-excluded", job_share=0.5, **CELL)
STRAGGLER = finding(id="evaluation-straggler", title="In evaluation", job_share=0.3, **CELL)
INPUT = finding(id="input-bound", title="Input", cost_share=0.4, gain_share=0.2, **CELL)


def losses_of(*rows):
    return job_losses(FINDINGS.frame(list(rows)), *CELL.values())


def test_losses_of_steps_are_shares_of_the_job():
    losses = losses_of(EVALUATION, INPUT)

    (own,) = losses.of_steps
    assert losses.outside == 0.5
    assert (own.share, own.gain, own.step_gain) == pytest.approx((0.2, 0.1, 0.2))
    assert losses.largest_gain == own


def test_without_evaluation_the_steps_are_the_job():
    losses = losses_of(INPUT)

    assert losses.outside == 0
    assert losses.of_steps[0].gain == INPUT["gain_share"]
    assert share_of_job(0.4, losses.outside) == 0.4


def test_the_evaluation_itself_has_no_fix_that_saves_a_known_share():
    assert losses_of(EVALUATION).largest_gain is None
    assert losses_of(EVALUATION).larger_beyond(NAN) is None


@pytest.mark.parametrize(("in_steps", "is_larger"), [(0.55, True), (0.65, False), (NAN, True)])
def test_losses_outside_the_steps_are_compared_as_shares_of_the_job(in_steps, is_larger):
    losses = losses_of(EVALUATION, STRAGGLER, INPUT)

    assert (losses.larger_beyond(in_steps) is not None) == is_larger
    assert losses.largest_gain.title == "In evaluation"
    assert math.isnan(losses.largest_gain.step_gain)


def test_findings_on_other_cells_and_on_the_whole_run_do_not_count():
    losses = losses_of({**INPUT, "np": 4}, finding(id="oversubscribed", cost_share=0.5))

    assert (losses.of_steps, losses.beyond) == ((), ())
