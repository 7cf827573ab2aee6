import pytest

from hvdprof.analyze.verdict.largest_loss import largest_loss
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.builders.finished_analysis import finding, verdict

PART = "Largest loss: exposed communication (11.3 points)."
STRAGGLER = {
    "id": "persistent-straggler",
    "title": "Persistent straggler: rank 3, data phase",
    "action": "Raise num_workers= on rank 3 (of 4). With tf.data, use .prefetch().",
}
FIX = "fix: raise num_workers= on rank 3"


def of_cell(cost, gain, **values):
    cell = {"model": "resnet18", "np": 2, "engine": "horovod", "gain_share": gain}
    return finding(**{**STRAGGLER, "cost_share": cost, **cell, **values})


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], PART),
        (
            [of_cell(0.1, 0.1)],
            "Largest loss: persistent straggler (rank 3, data phase), 10.0 % of step time; "
            f"{FIX} (up to 93.6 % without this loss).",
        ),
        (
            [
                of_cell(0.05, 0.1),
                of_cell(
                    0.2,
                    float("nan"),
                    id="compute-inflation",
                    title="Compute slowdown against the baseline",
                    action="End the other processes.",
                ),
            ],
            "Largest loss: compute slowdown against the baseline, 20.0 % of step time; fix: end "
            "the other processes.",
        ),
        ([of_cell(0.1, 0.1, np=4)], PART),
        ([of_cell(0.1, 0.1, engine="ddp")], PART),
        ([of_cell(float("nan"), 0.1)], PART),
        ([of_cell(0.3, 0.3, id="size-cliff")], PART),
    ],
)
def test_the_costliest_cause_is_named_with_its_fix(rows, sentence):
    assert largest_loss(verdict(), FINDINGS.frame(rows)) == sentence


@pytest.mark.parametrize("gain", [0.3, 0.0001, float("nan")])
def test_no_efficiency_is_promised_above_1_or_for_next_to_nothing(gain):
    text = largest_loss(verdict(), FINDINGS.frame([of_cell(0.1, gain)]))
    assert text.endswith(f"; {FIX}.")
