import pandas as pd
import pytest

from hvdprof.analyze.compare.cell_changes import gate_results, margins_of, parse_condition
from hvdprof.errors import UsageError
from hvdprof.model.results.comparison import EFFICIENCY, STEP_TIME, ComparisonOutcome
from hvdprof.model.tables.comparison_tables import COMPARED_CELLS, COMPARED_POOLED
from tests.builders.declared_rows import declared_rows


def test_a_condition_sets_the_margin_of_its_metric():
    conditions = [parse_condition("step_time>5%"), parse_condition(" efficiency < -3 pt ")]
    margins = margins_of(conditions, 0.02)
    assert margins[STEP_TIME.name] == pytest.approx(0.05)
    assert margins[EFFICIENCY.name] == pytest.approx(0.03)
    assert margins["final_loss"] == 0.02


@pytest.mark.parametrize(
    "text",
    [
        "step_time",
        "speed>2%",
        "step_time<-2%",
        "step_time>-2%",
        "step_time>2pt",
        "efficiency>2pt",
        "efficiency<2pt",
        "step_time>1.2.3%",
    ],
)
def test_a_condition_that_asks_for_something_else_is_refused(text):
    with pytest.raises(UsageError) as error:
        parse_condition(text)
    assert "--fail-on" in error.value.message
    assert error.value.hint


def test_two_conditions_on_one_metric_are_refused():
    with pytest.raises(UsageError, match="step_time"):
        margins_of([parse_condition("step_time>2%"), parse_condition("step_time>5%")], 0.02)


def row(np_, outcome):
    cell = {"model": "m", "np": np_, "engine": "horovod", "compression": "none"}
    return declared_rows(
        COMPARED_CELLS,
        cell | {"reduction": "average", "metric": "step_time", "outcome": str(outcome)},
    )


@pytest.mark.parametrize(
    ("found", "outcome", "cells"),
    [
        (
            [ComparisonOutcome.EQUAL, ComparisonOutcome.REGRESSED],
            ComparisonOutcome.REGRESSED,
            ("m on 3 ranks",),
        ),
        ([ComparisonOutcome.EQUAL, ComparisonOutcome.IMPROVED], ComparisonOutcome.EQUAL, ()),
        (
            [ComparisonOutcome.EQUAL, ComparisonOutcome.INCONCLUSIVE],
            ComparisonOutcome.INCONCLUSIVE,
            (),
        ),
        ([ComparisonOutcome.NOT_COMPARABLE] * 2, ComparisonOutcome.NOT_COMPARABLE, ()),
    ],
)
def test_one_cell_that_regressed_fails_the_condition(found, outcome, cells):
    rows = pd.concat([row(np_, one) for np_, one in enumerate(found, start=2)])
    (result,) = gate_results([parse_condition("step_time>2%")], rows, COMPARED_POOLED.empty())
    assert (result.outcome, result.cells) == (outcome, cells)


def test_the_mean_of_all_cells_fails_the_condition_too():
    rows = pd.concat(
        [row(2, ComparisonOutcome.INCONCLUSIVE), row(4, ComparisonOutcome.INCONCLUSIVE)]
    )
    pooled = declared_rows(COMPARED_POOLED, {"metric": "step_time", "outcome": "regressed"})
    (result,) = gate_results([parse_condition("step_time>2%")], rows, pooled)
    assert result.outcome is ComparisonOutcome.REGRESSED
    assert result.cells == ("the mean of all cells",)
