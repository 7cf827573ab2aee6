"""Ranks in sentences and facts: runs of three or more as ranges, long lists cut.

Tested in ``tests/analyze/files/test_rank_names.py``.
"""

from collections.abc import Iterable

_MOST_PARTS = 12
_LEAST_RUN = 3


def ranks_named(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 1, 2 and 5``, ``ranks 0 to 7 and 12``; distinct and ascending.

    Args:
        ranks: At least one.
    """
    distinct = sorted({int(rank) for rank in ranks})
    before, comma, last = ranks_listed(distinct).rpartition(", ")
    is_cut = " and " in last
    listed = f"{before} and {last}" if comma and not is_cut else before + comma + last
    return f"rank{'s' * (len(distinct) > 1)} {listed}"


def ranks_listed(ranks: Iterable[int]) -> str:
    """``1, 2, 5`` or ``0 to 7, 12``; beyond 12 parts ``... and 40 more``. Empty without ranks."""
    runs = _runs(sorted({int(rank) for rank in ranks}))
    parts = [
        part
        for low, high in runs
        for part in (
            [f"{low} to {high}"]
            if high - low >= _LEAST_RUN - 1
            else [str(rank) for rank in range(low, high + 1)]
        )
    ]
    shown, left = ", ".join(parts[:_MOST_PARTS]), parts[_MOST_PARTS:]
    return f"{shown} and {sum(map(_num_in, left))} more" if left else shown


def _runs(ascending: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for rank in ascending:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs


def _num_in(part: str) -> int:
    low, _, high = part.partition(" to ")
    return int(high) - int(low) + 1 if high else 1
