import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Topology
from hvdprof.analyze.predict.jitter import Jitter, jitter_of, no_jitter
from hvdprof.analyze.predict.rank_spread import (
    PRIOR_SD,
    RankSpread,
    Stragglers,
    Variance,
    draw_differences,
    draw_jitter,
    own_times_of,
    rank_spread,
    slowest_of,
)
from tests.builders.step_works import simulated

DRAWS = 2000


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def _slowest(
    spread: RankSpread, rng: np.random.Generator, sizes: list[int], ranks_per_host: int = 8
) -> dict[int, tuple[float, float]]:
    top = Topology(max(sizes), ranks_per_host)
    differences = draw_differences(spread, rng, DRAWS, top)
    draws = draw_jitter(spread.jitter, rng, DRAWS, max(sizes))
    found = slowest_of(spread.jitter, differences, draws, sizes, ranks_per_host)
    return {
        size: (float(one.lasting.mean()), float(one.total.mean())) for size, one in found.items()
    }


def test_windows_are_own_time_from_release_to_arrival() -> None:
    work = simulated(40, 3, noise=0.0)

    assert own_times_of(work) == pytest.approx(np.full((40, 3), 95e6))


def test_a_slow_rank_is_no_jitter(rng: np.random.Generator) -> None:
    extra = {"forward": np.array([0.0, 0.0, 0.0, 3.0]) * np.ones((300, 1))}
    work = simulated(300, 4, extra_ms=extra, noise=0.01)

    found = rank_spread([work], dict.fromkeys(range(4), "a"), {}, rng)

    assert found is not None
    assert found.of_ranks.degrees == 3
    expected = np.var([0, 0, 0, 3 / 95.75], ddof=1)
    assert found.of_ranks.value == pytest.approx(expected, rel=0.15)
    # Phases of 30 and 60 ms with an independent percent each.
    assert found.jitter.sd == pytest.approx(0.0067 / 0.95, rel=0.15)


def test_differences_of_hosts_are_none_of_ranks(rng: np.random.Generator) -> None:
    extra = {"forward": np.repeat([0.0, 1.0, 2.0, 3.0], 2) * np.ones((300, 1))}
    work = simulated(300, 8, extra_ms=extra, noise=0.005)

    found = rank_spread([work], {rank: str(rank // 2) for rank in range(8)}, {}, rng)

    assert found is not None
    assert found.of_hosts is not None
    assert found.of_hosts.degrees == 3
    assert found.of_hosts.value == pytest.approx(np.var([0, 1, 2, 3], ddof=1) / 96.5**2, rel=0.1)
    assert found.of_ranks.value < found.of_hosts.value / 50


@pytest.mark.heavy
@pytest.mark.parametrize("keeps", [True, False])
def test_stragglers_are_expected_again_or_taken_out(keeps: bool, rng: np.random.Generator) -> None:
    extra = {"forward": np.array([0.0, 0.0, 0.0, 30.0]) * np.ones((300, 1))}
    work = simulated(300, 4, extra_ms=extra, noise=0.005)

    found = rank_spread(
        [work], dict.fromkeys(range(4), "a"), {3: 30e6}, rng, keeps_stragglers=keeps
    )

    assert found is not None
    assert found.num_ranks == 3
    lasting, _ = _slowest(found, rng, [64])[64]
    if keeps:
        assert found.stragglers == Stragglers((pytest.approx(30 / 95, rel=0.01),), 4)
        assert lasting > 0.25
    else:
        assert lasting < 0.05


@pytest.mark.heavy
def test_the_slowest_of_equal_ranks_is_the_largest_jitter(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.02 * rng.standard_normal((1000, 8))], rng)
    spread = RankSpread(jitter, Variance(0.0, 1e9))

    found = _slowest(spread, rng, [8, 512])

    assert found[8] == pytest.approx((0.0, 0.0284), abs=0.001)
    assert found[512] == pytest.approx((0.0, 0.0608), abs=0.003)


@pytest.mark.heavy
def test_lasting_differences_and_jitter_do_not_simply_add(rng: np.random.Generator) -> None:
    jitter = jitter_of([1 + 0.02 * rng.standard_normal((1000, 8))], rng)
    spread = RankSpread(jitter, Variance(0.02**2, 1e9), num_ranks=10**6)

    lasting, total = _slowest(spread, rng, [64])[64]

    assert lasting == pytest.approx(0.0468, rel=0.03)
    # One rank is seldom the slowest by both: the sum of two normal values has sqrt(2) of the sd.
    assert total == pytest.approx(0.0468 * np.sqrt(2), rel=0.05)


def test_few_ranks_leave_their_differences_wide(rng: np.random.Generator) -> None:
    few, many = Variance(1e-4, 1.0), Variance(1e-4, 63.0)

    wide, narrow = (one.draws(rng, 20_000) for one in (few, many))

    assert np.quantile(wide, 0.95) > 1.7 * np.quantile(narrow, 0.95)
    assert np.median(narrow) == pytest.approx(0.01, rel=0.05)
    unmeasured = Variance(0.0, 0.0).draws(rng, 20_000)
    assert np.median(unmeasured) == pytest.approx(PRIOR_SD * np.sqrt(2 / 1.386), rel=0.05)


def test_a_larger_job_has_the_ranks_of_the_smaller_one(rng: np.random.Generator) -> None:
    spread = RankSpread(no_jitter(), Variance(1e-4, 7.0))
    differences = draw_differences(spread, rng, 100, Topology(64, 8))
    draws = draw_jitter(spread.jitter, rng, 100, 64)

    found = slowest_of(spread.jitter, differences, draws, [8, 64], 8)

    assert (found[64].lasting >= found[8].lasting).all()


@pytest.mark.heavy
def test_ranks_of_a_host_share_its_difference(rng: np.random.Generator) -> None:
    spread = RankSpread(no_jitter(), Variance(0.0, 1e9), Variance(0.01**2, 1e9), num_ranks=10**6)

    alone, shared = (_slowest(spread, rng, [64], per_host)[64][0] for per_host in (1, 32))

    assert alone == pytest.approx(0.0234, rel=0.05)
    assert shared == pytest.approx(0.00564, rel=0.1)


def test_one_rank_per_host_differs_as_its_host(rng: np.random.Generator) -> None:
    extra = {"forward": np.array([0.0, 1.0, 2.0, 3.0]) * np.ones((300, 1))}
    work = simulated(300, 4, extra_ms=extra, noise=0.005)
    found = rank_spread([work], {rank: str(rank) for rank in range(4)}, {}, rng)
    assert found is not None

    drawn = draw_differences(found, rng, DRAWS, Topology(64, 1))

    assert not drawn.rank_sd.any()
    assert np.median(drawn.host_sd) == pytest.approx(0.0134, rel=0.15)


def test_the_error_of_the_mean_holds_that_of_the_hosts(rng: np.random.Generator) -> None:
    spread = RankSpread(no_jitter(), Variance(1e-4, 1e9), Variance(0.02**2, 3.0), num_ranks=16)

    drawn = draw_differences(spread, rng, 20 * DRAWS, Topology(64, 4))

    expected = 1e-4 / 16 + np.mean(drawn.host_sd**2) / 4
    assert drawn.offset.var() == pytest.approx(expected, rel=0.1)


def test_too_few_steps_have_no_spread(rng: np.random.Generator) -> None:
    assert rank_spread([simulated(3, 2)], {}, {}, rng) is None


def test_without_any_jitter_the_control_variate_adds_none(rng: np.random.Generator) -> None:
    spread = RankSpread(no_jitter(), Variance(1e-4, 1e9))
    assert isinstance(spread.jitter, Jitter)

    lasting, total = _slowest(spread, rng, [32])[32]

    assert total == pytest.approx(lasting)
