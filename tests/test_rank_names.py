import pytest

from hvdprof.rank_names import ranks_listed, ranks_named


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([3], "rank 3"),
        ([2, 1], "ranks 1 and 2"),
        ([5, 1, 2, 5], "ranks 1, 2 and 5"),
        (range(8, 16), "ranks 8-15"),
        ([*range(8), 12, *range(20, 23)], "ranks 0-7, 12 and 20-22"),
        (range(0, 64, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more"),
        ([*range(0, 16, 2), *range(30, 40)], "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 10 more"),
        ([], ""),
    ],
)
def test_runs_are_ranges_and_long_lists_are_cut(ranks, named) -> None:
    assert ranks_named(ranks) == named


def test_facts_have_commas_alone() -> None:
    assert ranks_listed([12, 14]) == "12, 14"
    assert ranks_listed([4, 5, 6, 9]) == "4-6, 9"
    assert ranks_listed([]) == ""
