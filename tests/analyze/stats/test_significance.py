import math

import numpy as np
import pytest

from hvdprof.analyze.stats.significance import chance_of, holm, self_normalised

LEVEL = 0.0015


def correlated(seed: int, num: int, correlation: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    noise = random.normal(size=num + 200)
    values = np.empty_like(noise)
    values[0] = noise[0]
    for place in range(1, len(noise)):
        values[place] = (
            correlation * values[place - 1] + math.sqrt(1 - correlation**2) * noise[place]
        )
    return values[200:]


# Table 1 of the paper holds these quantiles for both sides together.
@pytest.mark.parametrize(
    ("statistic", "both_sides"), [(28.31, 0.10), (45.4, 0.05), (66.13, 0.025), (99.76, 0.01)]
)
def test_the_limit_is_that_of_the_published_table(statistic, both_sides):
    assert 2 * chance_of(statistic) == pytest.approx(both_sides, rel=0.03)


def test_no_spread_is_no_chance_and_no_mean_is_no_evidence():
    assert self_normalised(np.full(20, 3.0)) == math.inf
    assert chance_of(math.inf) == 0.0
    assert chance_of(0.0) == 0.5


def test_a_level_that_drifts_far_above_zero_is_seen():
    steps = np.arange(23)
    values = 17.0 + 0.4 * steps + np.random.default_rng(1).normal(size=23) * 2.5
    assert chance_of(self_normalised(values)) < LEVEL


@pytest.mark.heavy
@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.006), (0.6, 0.02), (0.8, 0.04)])
def test_values_around_zero_rarely_pass(correlation, most):
    drawn = [correlated(seed, 24, correlation) for seed in range(1_000)]
    passed = [chance_of(self_normalised(values)) <= LEVEL / 3 for values in drawn]
    assert sum(one and values.mean() > 0 for one, values in zip(passed, drawn, strict=True)) <= (
        1_000 * most
    )


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
