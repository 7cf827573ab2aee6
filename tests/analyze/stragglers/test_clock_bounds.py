"""Bounds of clocks by shortest paths from rank 0, against those of all pairs."""

import numpy as np
import pytest

from hvdprof.analyze.stragglers import clock_bounds
from hvdprof.analyze.stragglers.clock_bounds import _against_rank_0, pair_bounds, shortest


@pytest.mark.parametrize("least", [0, -400], ids=["consistent", "contradictory"])
@pytest.mark.parametrize("seed", range(20))
def test_paths_of_rank_0_are_those_of_all_pairs(seed: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = rng.integers(least, 10_000, (9, 9)).astype(np.float64)
    bounds[rng.random((9, 9)) < 0.3] = np.inf
    np.fill_diagonal(bounds, 0.0)
    exchange = rng.integers(1_000, 5_000, 9).astype(np.float64)
    exchange[0] = 0.0
    low, high = _against_rank_0(bounds, exchange)
    bounds[:, 0], bounds[0] = np.minimum(bounds[:, 0], exchange), np.minimum(bounds[0], exchange)
    paths = shortest(bounds)
    np.testing.assert_array_equal(high, paths[:, 0])
    np.testing.assert_array_equal(low, -paths[0])


def test_consistent_clocks_of_many_ranks_need_no_paths_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(clock_bounds, "shortest")
    rng = np.random.default_rng(1)
    ready = rng.integers(0, 1_000_000, (20, 64)).astype(np.float64)
    released = np.broadcast_to(ready.max(axis=1, keepdims=True) + 500.0, ready.shape)
    offsets = np.append(0.0, rng.integers(-5_000, 5_000, 63))
    low, high = _against_rank_0(
        pair_bounds(ready - offsets, released - offsets), np.full(64, 1e7) * (offsets != 0)
    )
    assert ((low <= offsets) & (offsets <= high)).all()
