""""""

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.ranks import arrivals
from hvdprof.analyze.ranks.arrivals import (
    NOT_READY,
    ArrivalCube,
    _against_rank_0,
    arrival_cubes,
    collective_arrivals,
    corrected_cube,
    last_ready,
    pair_bounds,
    shortest,
)
from hvdprof.model.tables.run_tables import ARRIVALS
from tests.builders.declared_rows import declared_rows
from tests.builders.step_works import arrivals_of

NAN = float("nan")

READY = np.array(
    [
        [[100, 140, 130], [200, 200, 290]],
        [[1100, NAN, 1105], [NAN, 1300, NAN]],
    ]
)
"""[2 steps, 2 gradients, 3 ranks]"""


def _cube(error: tuple[int, int, int] = (0, 0, 0)) -> ArrivalCube:
    (cube,) = arrival_cubes(arrivals_of(READY))
    return corrected_cube(cube, np.zeros(3), np.array(error, dtype=float))


def test_ready_times_by_step_gradient_and_rank() -> None:
    cube = _cube()

    assert cube.key == ("p", "s")
    assert list(cube.tensors) == ["t0", "t1"]
    assert cube.ready[0].tolist() == [[100, 140, 130], [200, 200, 290]]
    assert cube.ready[1].tolist() == [[1100, NOT_READY, 1105], [NOT_READY, 1300, NOT_READY]]


def test_the_error_of_a_clock_is_its_largest() -> None:
    rows = [
        {"pass_id": "p", "segment": "s", "tensor": "t", "rank": rank, "step": step}
        | {"clock_error_ns": error}
        for rank, step, error in ((0, 1, 3), (0, 2, 7), (4, 1, 5), (4, 2, 2))
    ]
    (cube,) = arrival_cubes(declared_rows(ARRIVALS, *rows))

    assert cube.ranks.tolist() == [0, 4]
    assert cube.clock_error.tolist() == [7, 5]


def test_blocks_and_parts_hold_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = np.arange(7 * 2 * 3, dtype=float).reshape(7, 2, 3)
    table = arrivals_of(ready)
    monkeypatch.setattr(arrivals, "MOST_CELLS", 2 * 2 * 3)

    blocks = list(arrival_cubes(table))
    parts = list(arrival_cubes([table[table["step"] < 3], table[table["step"] >= 3]]))

    assert [len(block.steps) for block in blocks] == [2, 2, 2, 1]
    for cubes in (blocks, parts):
        assert np.concatenate([cube.steps for cube in cubes]).tolist() == list(range(7))
        assert (np.concatenate([cube.ready for cube in cubes]) == ready).all()


def test_the_last_rank_of_each_gradient_and_the_waits_for_it() -> None:
    found = collective_arrivals(_cube())

    # A gradient of one rank has no last one.
    assert found[["step", "tensor"]].to_numpy().tolist() == [[0, "t0"], [0, "t1"], [1, "t0"]]
    assert found["num_ranks"].tolist() == [3, 3, 2]
    assert found["last_rank"].tolist() == [1, 2, 2]
    assert found["first_ns"].tolist() == [100, 200, 1100]
    assert found["second_last_ns"].tolist() == [130, 200, 1100]
    assert found["last_ns"].tolist() == [140, 290, 1105]
    # 40 + 10, 90 + 90, 5.
    assert found["wait_sum_ns"].tolist() == [50, 180, 5]


@pytest.mark.parametrize(
    ("error", "decided"),
    [
        ((0, 0, 0), [True, True, True]),
        # Gaps of 10, 90 and 5 between the last two ranks, of which the errors are added.
        ((0, 6, 4), [False, True, True]),
        ((2, 5, 3), [True, True, False]),
    ],
)
def test_a_gap_within_the_errors_of_the_clocks_is_undecided(
    error: tuple[int, int, int], decided: list[bool]
) -> None:
    assert collective_arrivals(_cube(error))["decided"].tolist() == decided


def test_a_correction_moves_the_times_of_a_rank() -> None:
    moved = corrected_cube(_cube(), np.array([0.0, -10.4, 30.6]), np.array([0.0, 1.2, 2.0]))

    assert moved.ready[0, 0].tolist() == [100, 130, 161]
    assert moved.ready[1, 0].tolist() == [1100, NOT_READY, 1136]
    assert moved.clock_error.tolist() == [0, 2, 2]


def test_the_last_gradient_of_each_rank() -> None:
    assert last_ready(_cube()).tolist() == [[200, 200, 290], [1100, 1300, 1105]]


def test_a_run_without_gradients_has_no_block() -> None:
    assert list(arrival_cubes(pd.DataFrame(ARRIVALS.empty()))) == []


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
    monkeypatch.delattr(arrivals, "shortest")
    rng = np.random.default_rng(1)
    ready = rng.integers(0, 1_000_000, (20, 64)).astype(np.float64)
    released = np.broadcast_to(ready.max(axis=1, keepdims=True) + 500.0, ready.shape)
    offsets = np.append(0.0, rng.integers(-5_000, 5_000, 63))
    low, high = _against_rank_0(
        pair_bounds(ready - offsets, released - offsets), np.full(64, 1e7) * (offsets != 0)
    )
    assert ((low <= offsets) & (offsets <= high)).all()
