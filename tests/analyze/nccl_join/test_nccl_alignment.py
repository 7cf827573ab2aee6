import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.analyze.nccl_join import nccl_alignment
from hvdprof.analyze.nccl_join.nccl_alignment import Aligned

KINDS = st.lists(st.integers(0, 3), max_size=7)
TABLE = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=4, max_size=4)


def aligned(left: list[int], right: list[int], table: list[list[bool]]) -> Aligned:
    return Aligned(
        left, len(right), lambda kind: np.array([table[kind][one] for one in right], dtype=bool)
    )


def all_longest(
    left: list[int], right: list[int], table: list[list[bool]]
) -> list[set[tuple[int, int]]]:
    for length in range(min(len(left), len(right)), 0, -1):
        found = [
            set(zip(some, others, strict=True))
            for some in itertools.combinations(range(len(left)), length)
            for others in itertools.combinations(range(len(right)), length)
            if all(table[left[i]][right[j]] for i, j in zip(some, others, strict=True))
        ]
        if found:
            return found
    return [set()]


@pytest.mark.heavy
@settings(deadline=None)
@given(KINDS, KINDS, TABLE)
def test_the_pairs_are_those_of_every_longest_alignment(
    left: list[int], right: list[int], table: list[list[bool]]
) -> None:
    found = aligned(left, right, table)
    every = all_longest(left, right, table)
    assert found.length == len(every[0])
    sure = found.certain()
    assert sure.length == found.length
    assert set(zip(sure.left, sure.right, strict=True)) == set.intersection(*every)


def test_few_masks_are_held_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [number % 7 for number in range(200)]
    same = np.eye(7, dtype=bool).tolist()
    expected = aligned(left, left[3:], same).certain()
    monkeypatch.setattr(nccl_alignment, "_MOST_MASKS", 2)
    found = aligned(left, left[3:], same).certain()
    assert found.length == expected.length == 197
    assert found.left.tolist() == expected.left.tolist()


def test_a_beginning_that_was_not_recorded_shifts_all_of_the_rest() -> None:
    numbers = list(range(500)) + list(range(500))
    table = np.eye(500, dtype=bool)
    found = Aligned(numbers, 700, lambda kind: table[kind][numbers[300:]]).certain()
    assert found.left.tolist() == list(range(300, 1000))
    assert found.right.tolist() == list(range(700))
