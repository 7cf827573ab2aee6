import pandas as pd
import pytest

from hvdprof.analyze.verdict.largest_loss import (
    cost_of_baseline,
    largest_loss,
    nothing_large,
    offset,
)
from hvdprof.model.causes import cause_id
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import finding, verdict

CELL = {
    "model": "resnet18",
    "np": 2,
    "engine": "horovod",
    "compression": "none",
    "reduction": "average",
}
STEP_NS = 100e6


def cause(term, share, low=None, **values):
    row = {"term": term, "share": share, "time_ns": share * STEP_NS, "share_low": share / 2}
    row["cause_id"] = cause_id(term, *(values.get(name, "") for name in ("ranks", "phase")))
    return declared_rows(
        WATERFALL, CELL | row | ({} if low is None else {"share_low": low}) | values
    )


SLOW = cause("straggler", 0.381, ranks="1", phase="data", pattern="persistent")
FINDING = finding(
    id="persistent-straggler",
    phrase="straggler (rank 1, data phase)",
    fix="raise num_workers= on rank 1",
    cause_id="straggler/1/data",
    model="resnet18",
    np=2,
    engine="horovod",
)


def loss(rows, *findings, np=2):
    own = pd.Series({"model": "resnet18", "np": np, "engine": "horovod"})
    return largest_loss(pd.concat(rows), FINDINGS.frame(list(findings)), own)


def test_the_costliest_cause_is_named_with_its_cost_and_fix():
    found = loss([SLOW, cause("jitter", 0.1)], FINDING)

    assert found.sentence == (
        "Largest loss: straggler (rank 1, data phase), 38.1 ms per step (38.1 %); fix: raise "
        "num_workers= on rank 1.",
        "Largest loss: straggler (rank 1, data phase), 38.1 ms per step.",
    )
    assert (found.name, found.share) == ("straggler: rank 1, data phase", 0.381)
    assert found.cause_id == "straggler/1/data"


def test_a_finding_of_the_same_cost_on_another_cause_has_not_the_fix():
    other = FINDING | {"cause_id": "jitter", "cost_ns": 0.381 * STEP_NS}

    assert loss([SLOW], other).sentence.text == (
        "Largest loss: straggler: rank 1, data phase, 38.1 ms per step (38.1 %)."
    )


@pytest.mark.parametrize(
    ("share", "low", "high", "is_named"),
    [(0.37, 0.3, 0.44, True), (0.37, 0.36, 0.38, False), (0.3, 0.1, 0.5, False)],
    ids=["as large", "apart", "smaller"],
)
def test_a_cause_that_may_be_as_large_is_named_beside(share, low, high, is_named):
    first = SLOW.assign(share_low=0.3805, share_high=0.3815) if not is_named else SLOW
    second = cause("jitter", share, low, share_high=high)
    found = loss([first, second], FINDING)

    assert (", about as large as jitter (37.0 %); fix: " in found.sentence.text) == is_named
    assert found.rival == ("about as large as jitter (37.0 %)" if is_named else "")
    assert found.sentence.short.endswith("straggler (rank 1, data phase), 38.1 ms per step.")


def test_a_cause_without_a_finding_has_no_fix():
    found = loss([cause("jitter", 0.5)], FINDING)

    assert found.sentence.text == "Largest loss: jitter, 50.0 ms per step (50.0 %)."


TRANSFER = cause("exposed-transfer", 0.5)
PAUSES = cause("pause", 0.2, ranks="all", phase="outside", pattern="periodic", period_steps=5)
INPUT = cause("input-bound", 0.3)


@pytest.mark.parametrize(
    ("rows", "following"),
    [
        ([TRANSFER, SLOW], "straggler (rank 1, data phase), 38.1 ms per step (38.1 %); fix: raise"),
        (
            [TRANSFER, INPUT, PAUSES],
            "all ranks pause every 5 steps, between steps, 20.0 ms per step (20.0 %).",
        ),
        ([TRANSFER, INPUT], "input (all ranks), 30.0 ms per step (30.0 %)."),
        ([SLOW, INPUT], None),
        ([TRANSFER, cause("jitter", 0.2)], None),
        ([TRANSFER, cause("straggler", 0.04, ranks="1", phase="data")], None),
        ([SLOW, cause("jitter", 0.1, ranks="1", phase="data")], None),
        (
            [SLOW, cause("jitter", 0.1, ranks="0", phase="data")],
            "jitter (most of it rank 0, data phase), 10.0 ms per step (10.0 %).",
        ),
        ([INPUT, cause("straggler", 0.29, ranks="1", phase="data", share_high=0.4)], None),
    ],
)
def test_a_smaller_cause_with_an_address_follows_once(rows, following):
    text = loss(rows, FINDING).sentence.text

    said = text.partition(" Next: ")[2]
    assert said.startswith(following) if following else not said


def test_input_of_few_ranks_is_named_where_that_of_all_would_be_usual():
    of_one = cause("input-bound", 0.08, ranks="1", baseline_share=float("nan"))

    assert loss([of_one]).name == "input (rank 1 waits longest)"
    assert loss([cause("input-bound", 0.08, baseline_share=float("nan"))]) is None


@pytest.mark.parametrize(
    "row",
    [
        cause("jitter", 0.04),
        cause("jitter", 0.5, low=-0.01),
        cause("baseline-credit", 0.5),
        cause("residual", 0.5),
        cause("compute-inflation", -0.5),
    ],
)
def test_what_is_small_uncertain_or_no_loss_is_not_named(row):
    assert loss([row]) is None


@pytest.mark.parametrize(
    ("share", "of_baseline", "is_named"),
    [
        (0.08, 0.3, True),
        (0.04, 0.3, False),
        (0.12, float("nan"), True),
        (0.08, float("nan"), False),
    ],
)
def test_input_is_named_where_it_is_much_or_more_than_in_the_baseline(share, of_baseline, is_named):
    row = cause("input-bound", share, baseline_share=of_baseline)
    assert (loss([row]) is not None) == is_named


def test_what_the_baseline_has_as_well_is_a_cost_with_its_fix():
    rows = [
        cause(term, 0.01, baseline_share=share, baseline_ns=share * STEP_NS)
        for term, share in (("input-bound", 0.2), ("outside", 0.4))
    ]
    fix = finding(id="outside-phases", fix="do less", model="resnet18")
    own = pd.Series({"model": "resnet18", "np": 2, "engine": "horovod"})

    assert cost_of_baseline(pd.concat(rows), FINDINGS.frame([fix]), own) == (
        "Largest cost, in the baseline as well: outside all phases, 41.0 ms per "
        "step (41.0 %); fix: do less.",
        "Largest cost, in the baseline as well: outside all phases, 41.0 ms per step.",
    )
    small = cause("input-bound", 0.01, baseline_share=0.08, baseline_ns=0.08 * STEP_NS)
    alone = cause("input-bound", 0.4)
    for row in (small, alone, cause("jitter", 0.5)):
        assert cost_of_baseline(row, FINDINGS.frame([fix]), own) is None


@pytest.mark.parametrize(
    ("share", "low", "high", "said"),
    [
        (0.049, 0.045, 0.053, "No large loss: the largest is input, 4.9 ± 0.4 % of the step."),
        # Below a tenth of the step it is what every loop spends.
        (0.08, 0.07, 0.09, "No large loss: the largest is input, 8.0 ± 1.0 % of the step."),
        (0.08, -0.02, 0.18, "No certain loss: the largest is input, 8 ± 10 % of the step."),
    ],
)
def test_the_largest_term_bounds_what_is_lost(share, low, high, said):
    own = pd.Series({"model": "resnet18", "np": 2, "engine": "horovod"})
    rows = [cause("input-bound", share, low, share_high=high), cause("jitter", 0.01)]
    rows.append(cause("baseline-credit", 0.5))

    found = nothing_large(pd.concat(rows), own)
    assert found == (said, f"{said.partition(':')[0]}.")
    # Steps without phases hide what they spend on input.
    assert nothing_large(pd.concat(rows[1:]), own) is None


@pytest.mark.parametrize(("share", "is_named"), [(0.39, True), (0.37, False)])
def test_long_steps_without_a_row_are_the_loss_where_they_cost_most(share, is_named):
    stalls = finding(
        id="stalled-steps",
        phrase="stalled steps",
        fix="look for jobs",
        cause_id="",
        cost_share=share,
        cost_ns=share * STEP_NS,
        **{name: CELL[name] for name in ("model", "np", "engine")},
    )
    found = loss([SLOW], stalls, FINDING)

    text = "Largest loss: stalled steps, 39.0 ms per step (39.0 %); fix: look for jobs."
    assert (found.sentence.text == text) == is_named
    assert found.cause_id == ("" if is_named else "straggler/1/data")


def test_another_cell_is_not_asked():
    assert loss([SLOW], FINDING, np=4) is None


def test_one_launch_names_a_loss_without_an_interval():
    assert loss([cause("jitter", 0.5, low=float("nan"))]).name == "jitter"


def test_gains_that_offset_the_loss_are_named():
    text = offset(verdict(efficiency=0.95, biggest_loss_share=0.2))
    assert (
        text
        == "Gains, and losses that the baseline has too, offset 15.0 points of these 20.0 points."
    )
    assert offset(verdict(efficiency=0.8, biggest_loss_share=0.2)) == ""
    assert offset(verdict(efficiency=float("nan"), biggest_loss_share=0.2)) == ""
