"""The launches that are needed, against the table of sample sizes of two-sided t-tests."""

import math

import numpy as np
import pytest

from hvdprof.analyze.compare.outcomes import outcomes
from hvdprof.analyze.compare.power import Design, detectable_change, launches_needed
from hvdprof.analyze.stats.launch_spread import Spread, less, spread
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
