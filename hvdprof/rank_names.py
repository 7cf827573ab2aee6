"""Ranks in sentences and facts: runs of three or more as ranges, long lists cut."""

from collections.abc import Iterable

_MOST_PARTS = 8
_LEAST_RUN = 3


def ranks_named(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 1, 2 and 5``, ``ranks 0-7 and 12``; distinct and ascending.

    Empty without ranks.
    """
    distinct = sorted({int(rank) for rank in ranks})
    if not distinct:
        return ""
    before, comma, last = ranks_listed(distinct).rpartition(", ")
    is_cut = " and " in last
    listed = f"{before} and {last}" if comma and not is_cut else before + comma + last
    return f"rank{'s' * (len(distinct) > 1)} {listed}"


def ranks_listed(ranks: Iterable[int]) -> str:
    """``1, 2, 5`` or ``0-7, 12``; beyond 8 parts ``... and 40 more``. Empty without ranks."""
    parts = _parts(sorted({int(rank) for rank in ranks}))
    shown = ", ".join(
        f"{low}-{high}" if low < high else str(low) for low, high in parts[:_MOST_PARTS]
    )
    num_left = sum(1 + high - low for low, high in parts[_MOST_PARTS:])
    return f"{shown} and {num_left} more" if num_left else shown


def _parts(ascending: list[int]) -> list[tuple[int, int]]:
    """First and last of each run; the ranks of a short run one by one."""
    runs: list[tuple[int, int]] = []
    for rank in ascending:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return [
        part
        for low, high in runs
        for part in (
            [(low, high)]
            if high - low >= _LEAST_RUN - 1
            else [(rank, rank) for rank in range(low, high + 1)]
        )
    ]
