import numpy as np
import pytest

from hvdprof.analyze.predict.jitter import (
    HEAVIEST_TAIL,
    jitter_of,
    no_jitter,
    normal_jitter,
    tail_of,
)

NORMAL_MAXIMA = {8: 1.42, 64: 2.34, 512: 3.04}
"""Expected largest of N standard normal values."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("num_ranks", [2, 8])
def test_the_largest_of_many_normal_values_is_that_of_order_statistics(
    num_ranks: int, rng: np.random.Generator
) -> None:
    jitter = jitter_of([1 + 0.02 * rng.standard_normal((500, num_ranks)) for _ in range(3)], rng)

    for num, expected in NORMAL_MAXIMA.items():
        found = float(jitter.expected_maximum(num).mean())
        assert found == pytest.approx(0.02 * expected, rel=0.1), num


def test_what_all_ranks_have_in_common_is_not_maximised(rng: np.random.Generator) -> None:
    own = 0.01 * rng.standard_normal((800, 4))
    common = 0.05 * rng.standard_normal((800, 1))

    alone, together = jitter_of([1 + own], rng), jitter_of([1 + own + common], rng)

    assert together.common_share == pytest.approx(25 / 26, abs=0.02)
    assert together.sd == pytest.approx(alone.sd, rel=0.05)
    assert alone.common_share < 0.05


def test_two_ranks_keep_the_skewness_of_their_delays(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.02 * rng.exponential(size=(1500, 2))], rng)

    # The difference of two exponential delays is symmetric; its largest of 64 is 0.061.
    exponential = 0.02 * (sum(1 / k for k in range(1, 65)) - 1)
    assert float(jitter.expected_maximum(64).mean()) == pytest.approx(exponential, rel=0.1)


def test_the_tail_goes_on_beyond_the_sample(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.02 * rng.exponential(size=(600, 4))], rng)

    largest = 0.02 * (sum(1 / k for k in range(1, 4097)) - 1)
    assert float(jitter.expected_maximum(4096).mean()) == pytest.approx(largest, rel=0.25)
    assert jitter.beyond_sample(4096) > 0.02


@pytest.mark.parametrize(("index", "tolerance"), [(-0.3, 0.05), (0.0, 0.05), (0.25, 0.08)])
def test_the_shape_of_a_pareto_tail_is_found(
    index: float, tolerance: float, rng: np.random.Generator
) -> None:
    shares = rng.random(40_000)
    values = -np.log(shares) if index == 0 else (shares**-index - 1) / index

    tail = tail_of(np.sort(values))

    assert tail.index == pytest.approx(index, abs=tolerance)


def test_a_heavy_tail_opens_the_band_where_it_matters(rng: np.random.Generator) -> None:
    shares = rng.random((1000, 4))
    heavy = jitter_of([1 + 0.01 * (shares**-0.6 - 1)], rng)
    light = jitter_of([1 + 0.01 * rng.standard_normal((1000, 4))], rng)

    assert heavy.tail_index > HEAVIEST_TAIL
    assert heavy.is_open(512, 0.005)
    assert not heavy.is_open(512, 100.0)
    assert not light.is_open(512, 0.005)


def test_random_values_have_the_distribution_of_the_sample(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.02 * rng.exponential(size=(2000, 4))], rng)

    values = jitter.values(np.zeros(20_000, dtype=np.int64), rng.standard_exponential(20_000))

    assert values.mean() == pytest.approx(0.0, abs=0.001)
    assert values.std() == pytest.approx(0.02, rel=0.05)


def test_ranks_without_jitter_have_none() -> None:
    assert no_jitter().expected_maximum(512) == pytest.approx([0.0])
    assert not no_jitter().is_open(512, 0.0)
    same = jitter_of([np.ones((50, 2))], np.random.default_rng(0))
    assert same.expected_maximum(512) == pytest.approx([0.0])


def test_assumed_jitter_is_normal() -> None:
    jitter = normal_jitter([0.01, 0.02])

    assert jitter.expected_maximum(64) == pytest.approx([0.0234, 0.0468], rel=0.02)


def test_too_few_values_have_no_known_tail(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.05 * rng.standard_normal((20, 2))], rng)

    assert np.isnan(jitter.tail_index)
