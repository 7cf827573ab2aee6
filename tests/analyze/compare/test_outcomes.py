import math

import numpy as np
import pytest

from hvdprof.analyze.compare.outcomes import (
    chance_of_at_most,
    change_interval,
    outcomes,
    overall,
)
from hvdprof.analyze.stats.launch_spread import Spread, less, spread
from hvdprof.model.results.comparison import ComparisonOutcome

MARGIN = math.log1p(0.02)


def change(value, error=0.003, degrees=10.0):
    return Spread(value, error**2, degrees)


@pytest.mark.parametrize(
    ("value", "error", "outcome"),
    [
        (0.06, 0.003, ComparisonOutcome.REGRESSED),
        (-0.06, 0.003, ComparisonOutcome.IMPROVED),
        (0.004, 0.003, ComparisonOutcome.EQUAL),
        (0.021, 0.003, ComparisonOutcome.INCONCLUSIVE),
        (0.06, 0.05, ComparisonOutcome.INCONCLUSIVE),
        (0.0, float("nan"), ComparisonOutcome.INCONCLUSIVE),
    ],
)
def test_the_interval_against_the_margin_decides(value, error, outcome):
    assert outcomes([change(value, error)], MARGIN) == [outcome]


def test_the_outcome_agrees_with_the_interval_that_is_printed():
    for value in np.linspace(-0.06, 0.06, 61):
        found = change_interval(change(value))
        (outcome,) = outcomes([change(value)], MARGIN)
        assert (found.low > MARGIN) == (outcome is ComparisonOutcome.REGRESSED)
        assert (found.high < -MARGIN) == (outcome is ComparisonOutcome.IMPROVED)
        assert (found.low > -MARGIN and found.high < MARGIN) == (outcome is ComparisonOutcome.EQUAL)


def test_more_cells_need_more_evidence_for_a_regression_and_none_for_equality():
    slow = change(0.0265, 0.0035)
    assert outcomes([slow], MARGIN) == [ComparisonOutcome.REGRESSED]
    assert outcomes([slow, *[change(0.0)] * 8], MARGIN) == [
        ComparisonOutcome.INCONCLUSIVE,
        *[ComparisonOutcome.EQUAL] * 8,
    ]


def test_without_any_spread_the_value_alone_decides():
    assert chance_of_at_most(Spread(0.03, 0.0, 4.0), 0.02) == 0.0
    assert chance_of_at_most(Spread(0.02, 0.0, 4.0), 0.02) == 1.0


@pytest.mark.parametrize(
    ("cells", "pooled", "whole"),
    [
        (
            [ComparisonOutcome.EQUAL, ComparisonOutcome.REGRESSED],
            ComparisonOutcome.EQUAL,
            ComparisonOutcome.REGRESSED,
        ),
        (
            [ComparisonOutcome.IMPROVED, ComparisonOutcome.REGRESSED],
            ComparisonOutcome.EQUAL,
            ComparisonOutcome.REGRESSED,
        ),
        (
            [ComparisonOutcome.IMPROVED, ComparisonOutcome.INCONCLUSIVE],
            ComparisonOutcome.INCONCLUSIVE,
            ComparisonOutcome.IMPROVED,
        ),
        (
            [ComparisonOutcome.INCONCLUSIVE] * 2,
            ComparisonOutcome.REGRESSED,
            ComparisonOutcome.REGRESSED,
        ),
        ([ComparisonOutcome.EQUAL] * 2, ComparisonOutcome.EQUAL, ComparisonOutcome.EQUAL),
        (
            [ComparisonOutcome.EQUAL, ComparisonOutcome.INCONCLUSIVE],
            ComparisonOutcome.EQUAL,
            ComparisonOutcome.INCONCLUSIVE,
        ),
        (
            [ComparisonOutcome.EQUAL, ComparisonOutcome.NOT_COMPARABLE],
            ComparisonOutcome.EQUAL,
            ComparisonOutcome.EQUAL,
        ),
        (
            [ComparisonOutcome.NOT_COMPARABLE],
            ComparisonOutcome.INCONCLUSIVE,
            ComparisonOutcome.NOT_COMPARABLE,
        ),
    ],
)
def test_the_whole_follows_from_the_cells_and_their_mean(cells, pooled, whole):
    assert overall(cells, pooled) is whole


def test_few_runs_of_the_same_speed_are_called_different():
    """Launches of 4 % spread, 5 a side: the accepted share of wrong outcomes is 5 %."""
    random = np.random.default_rng(7)
    found = []
    for _ in range(400):
        sides = random.normal(0.0, 0.04, (2, 5))
        found += outcomes([less(spread(list(sides[1])), spread(list(sides[0])))], MARGIN)
    wrong = sum(one in (ComparisonOutcome.REGRESSED, ComparisonOutcome.IMPROVED) for one in found)
    assert wrong <= 0.05 * len(found)
