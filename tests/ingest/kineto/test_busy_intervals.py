"""Intervals merged, and what of them others leave uncovered."""

import numpy as np

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged, uncovered
from hvdprof.model.arrays import Int64s


def _of(*pairs: tuple[int, int]) -> tuple[Int64s, Int64s]:
    times = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return times[:, 0], times[:, 1]


def _pairs(found: tuple[Int64s, Int64s]) -> list[tuple[int, int]]:
    return list(zip(*(times.tolist() for times in found), strict=True))


def test_overlapping_and_touching_intervals_become_one() -> None:
    assert _pairs(merged(*_of((5, 8), (0, 2), (7, 9), (2, 3), (4, 4)))) == [(0, 3), (5, 9)]
    assert _pairs(merged(*_of())) == []


def test_what_others_cover_is_cut_out() -> None:
    assert _pairs(uncovered(_of((0, 10), (20, 30)), _of((2, 4), (8, 22)))) == [
        (0, 2),
        (4, 8),
        (22, 30),
    ]
    assert _pairs(uncovered(_of((0, 10)), _of())) == [(0, 10)]
    assert _pairs(uncovered(_of((3, 5)), _of((0, 10)))) == []


def test_the_covered_length_of_each_interval() -> None:
    assert covered_ns(*_of((0, 10), (3, 5), (9, 9)), _of((2, 4), (8, 22))).tolist() == [4, 1, 0]
    assert covered_ns(*_of((0, 10)), _of()).tolist() == [0]
