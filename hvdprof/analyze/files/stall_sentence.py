"""What Horovod's stall warnings say, in one sentence: who did not submit which tensors.

Tested in ``tests/analyze/files/test_log_verdict.py``.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import pandas as pd

from hvdprof import units
from hvdprof.rank_names import ranks_named

_MOST_NAME_CHARACTERS = 40
_MOST_CLAUSES = 3


def stall_sentence(stalls: pd.DataFrame) -> str:
    """One sentence: the ranks that did not submit, or that they submitted different tensors.

    Args:
        stalls: Rows of STALLS of one file.
    """
    longest = float(stalls["waited_s"].max())
    # A warning whose beginning is cut does not say how long.
    known = longest == longest
    during = f" for at least {units.seconds(longest)}" if known else ""
    tensors = units.counted(int(stalls["tensor"].nunique()), "tensor")
    if (stalls["state"] == "ready").any():
        stalls = pd.concat([stalls, _missing_of_ready(stalls)])
    missing = stalls[((stalls["state"] == "missing") & (stalls["stalled_rank"] >= 0)).to_numpy()]
    ranks = sorted({int(rank) for rank in missing["stalled_rank"]})
    if not ranks:
        return f"Stall: {tensors} stalled{during}."
    lacking = {rank: _tensors(missing, rank) for rank in ranks}
    last = missing[(missing["warning"] == missing["warning"].max()).to_numpy()]
    apart = _are_apart([_tensors(last, rank) for rank in ranks])
    if apart and not stalls["cut"].all():
        cut = "ranks lack different tensors, in lists that are cut"
        what = cut if stalls["cut"].any() else "ranks submitted different tensors"
        return f"Stall{during.replace(' for', ' of', 1)}: {what} ({_divergence(last, ranks)})."
    number = units.counted(len(set().union(*lacking.values())), "tensor")
    at_least = "at least " if stalls["cut"].any() else ""
    left = sorted({int(rank) for rank in last["stalled_rank"]})
    now = f"; in the last warning {ranks_named(left)}" if left != ranks else ""
    return f"Stall: {ranks_named(ranks)} did not submit {at_least}{number}{during}{now}."


def _short(tensor: str) -> str:
    """The end of a name, which distinguishes it."""
    if len(tensor) <= _MOST_NAME_CHARACTERS:
        return tensor
    return f"\N{HORIZONTAL ELLIPSIS}{tensor[-_MOST_NAME_CHARACTERS:]}"


def _tensors(missing: pd.DataFrame, rank: int) -> set[str]:
    own = missing[(missing["stalled_rank"] == rank).to_numpy()]
    return {str(tensor) for tensor in own["tensor"]}


def _are_apart(lacking: Iterable[set[str]]) -> bool:
    """Whether each of two ranks has submitted a tensor that the other has not: both are stuck."""
    return any(one - other and other - one for one, other in combinations(lacking, 2))


def _divergence(missing: pd.DataFrame, ranks: Sequence[int]) -> str:
    """Every rank of a warning with a tensor that it lacks; ranks that lack the same together."""
    by_tensors: dict[frozenset[str], list[int]] = {}
    for rank in ranks:
        if lacking := _tensors(missing, rank):
            by_tensors.setdefault(frozenset(lacking), []).append(rank)
    clauses = []
    for tensors, own in list(by_tensors.items())[:_MOST_CLAUSES]:
        more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        clauses.append(f"{ranks_named(own)} not {_short(min(tensors))}{more}")
    left = [rank for own in list(by_tensors.values())[_MOST_CLAUSES:] for rank in own]
    return ", ".join([*clauses, f"{ranks_named(left)} others"] if left else clauses)


def _missing_of_ready(stalls: pd.DataFrame) -> pd.DataFrame:
    """Rows for ranks below the highest named one that are not among the ready ranks of a tensor.

    Horovod up to 0.13 lists ready ranks, and does not state how many there are.
    """
    ready = stalls[(stalls["state"] == "ready").to_numpy()]
    highest = int(stalls["stalled_rank"].max())
    rows = []
    for _, members in ready.groupby(["warning", "tensor"], observed=True, sort=False):
        row = members.iloc[0].to_dict()
        absent = set(range(highest + 1)) - {int(rank) for rank in members["stalled_rank"]}
        rows += [{**row, "state": "missing", "stalled_rank": rank} for rank in sorted(absent)]
    return pd.DataFrame(rows, columns=list(stalls.columns))
