import math

import numpy as np
import pytest

from hvdprof.analyze.compare.outcomes import (
    Design,
    chance_of_at_most,
    change_interval,
    detectable_change,
    launches_needed,
    outcomes,
    overall,
)
from hvdprof.analyze.stats.uncertainty import Spread, less, spread
from hvdprof.model.results.comparison import ComparisonOutcome


def measured(value, spread_of_launches, launches):
    return Spread(value, 2 * spread_of_launches**2 / launches, 2.0 * (launches - 1))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("true", "spread_of_launches"), [(0.06, 0.01), (0.06, 0.02), (0.06, 0.04), (0.0, 0.02)]
)
def test_so_many_launches_decide_in_four_of_five_comparisons(true, spread_of_launches):
    needed = launches_needed(
        measured(true, spread_of_launches, 3), 0.02, Design(3, 3, is_paired=False)
    )
    assert _share_decided(true, 0.02, spread_of_launches, needed) >= 0.75
    if needed > 3:
        assert _share_decided(true, 0.02, spread_of_launches, needed - 1) <= 0.85


def test_pairs_need_fewer_launches():
    pairs = Spread(0.06, 2 * 0.04**2 * (1 - 0.8) / 4, 3.0)
    independent = measured(0.06, 0.04, 4)
    paired = launches_needed(pairs, 0.02, Design(4, 4, is_paired=True))
    assert paired < launches_needed(independent, 0.02, Design(4, 4, is_paired=False)) / 2


def test_a_change_as_large_as_the_margin_is_never_decided():
    assert launches_needed(measured(0.02, 0.02, 3), 0.02, Design(3, 3, is_paired=False)) is None


def test_an_unknown_error_detects_nothing():
    unknown = Spread(0.05, float("nan"), 0.0)
    assert math.isnan(detectable_change(unknown, 0.02))
    assert launches_needed(unknown, 0.02, Design(1, 1, is_paired=False)) is None


def test_the_detectable_change_is_found_in_four_of_five_comparisons():
    launches, spread_of_launches, margin = 6, 0.02, 0.02
    least = detectable_change(measured(0.0, spread_of_launches, launches), margin)
    share = _share_decided(least, margin, spread_of_launches, launches)
    assert share == pytest.approx(0.8, abs=0.06)


def _share_decided(true, margin, spread_of_launches, launches, trials=600):
    random = np.random.default_rng(3)
    decided = 0
    for _ in range(trials):
        first = random.normal(0.0, spread_of_launches, launches)
        second = random.normal(true, spread_of_launches, launches)
        (outcome,) = outcomes([less(spread(list(second)), spread(list(first)))], margin)
        decided += outcome is not ComparisonOutcome.INCONCLUSIVE
    return decided / trials


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
