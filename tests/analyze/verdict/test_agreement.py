"""No cause is named that the account of the ranks contradicts."""

import pandas as pd
import pytest

from hvdprof.analyze.verdict.agreement import CellAccount, cell_account, contradiction
from hvdprof.analyze.verdict.largest_loss import largest_loss
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from tests.analyze.causes.test_cell_split import launches_with
from tests.analyze.verdict.test_largest_loss import SLOW, STEP_NS, cause
from tests.builders.analysis import analysis_of

PHASES = ("data", "forward", "backward", "optimizer", "outside", "before_update")


def account(*costs, shared=(), later=()):
    """Of each rank what it costs by phase, and what all share, as shares of the step."""
    return CellAccount(
        pd.DataFrame(
            [
                {
                    "rank": rank,
                    "phase": phase,
                    "cost_share": own.get(phase, 0.0),
                    "later_share": (later[rank] if later else own).get(phase, 0.0),
                    "shared_ns": dict(shared).get(phase, 0.0) * STEP_NS,
                }
                for rank, own in enumerate(costs)
                for phase in PHASES
            ]
        )
    )


def test_the_shares_of_an_account_are_those_of_the_mean_step(tmp_path):
    found = analysis_of(tmp_path, launches_with([(0.0, 19.0), (0.0, 19.0)]))
    names = (RANK_COSTS.name, RANK_MACHINE.name)
    tables = {LAUNCHES.name: found.launches, **{name: found.table(name) for name in names}}
    cell = found.scaling.iloc[-1]
    before = cell_account(tables, found.run.segments, cell).cost(1)

    found.launches["step_time_ns"] *= 3.0
    after = cell_account(tables, found.run.segments, cell).cost(1)
    assert after == pytest.approx(before / 3)


def said(row, own, *others):
    rows = pd.concat([row, *others]).to_dict("records")
    return contradiction(rows[0], rows, own)


def test_a_loss_of_all_ranks_that_one_rank_has_is_no_single_cause():
    every = cause("input-bound", 0.3)

    found = said(every, account({"data": 0.28}, {"data": 0.01}, shared={"data": 0.02}.items()))
    assert found is not None
    assert found.text == (
        "Largest loss: no single cause: input (all ranks) has 30.0 % in the waterfall, but rank 0 "
        "costs 28.0 %, most of it data phase."
    )
    # They share it, wait in turn, or the rank has a name of its own.
    assert said(every, account({"data": 0.28}, {}, shared={"data": 0.3}.items())) is None
    assert said(every, account({"data": 0.16}, {"data": 0.14})) is None
    slow = cause("straggler", 0.28, ranks="0", phase="data", pattern="persistent")
    assert said(every, account({"data": 0.28}, {}), slow) is None


@pytest.mark.parametrize(
    ("own", "other", "is_said"),
    [(0.3, 0.1, False), (0.1, 0.0, True), (0.3, 0.5, True), (0.13, 0.1, False)],
)
def test_a_straggler_must_cost_in_its_own_account(own, other, is_said):
    found = said(SLOW, account({"forward": other}, {"data": own}))

    assert (found is not None) == is_said


def test_a_straggler_among_many_is_judged_by_how_late_it_is():
    ranks = [{"data": 0.01} for _ in range(32)]
    later = [{"data": 0.0}, {"data": 0.38}, *({"data": 0.0} for _ in range(30))]

    assert said(SLOW, account(*ranks, later=later)) is None


def test_the_verdict_then_names_neither_cause_nor_fix():
    own = pd.Series({"model": "resnet18", "np": 2, "engine": "horovod"})
    findings = FINDINGS.frame([])
    against = account({"forward": 0.5}, {"data": 0.3})

    assert largest_loss(SLOW, findings, own).name == "straggler: rank 1, data phase"
    found = largest_loss(SLOW, findings, own, account=against)
    assert (found.name, found.cause_id) == ("", "")
    assert "no single cause" in found.sentence.text and "fix" not in found.sentence.text
    assert largest_loss(SLOW, findings, own, account=account()) is not None
