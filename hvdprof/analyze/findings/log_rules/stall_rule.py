"""What Horovod's stall warnings say: who did not submit which tensors, and where to look then.

Tested in ``tests/analyze/findings/test_stall_rule.py`` and in ``tests/analyze/files``.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import combinations

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences
from hvdprof.analyze.findings.finding import Finding
from hvdprof.rank_names import ranks_named

STALLED = "stalled-tensors"
_MOST_NAME_CHARACTERS = 40
_MOST_CLAUSES = 3
_DUMP = "py-spy dump --pid PID"
_LIVE = advice(
    "while it hangs, dump the stacks of {ranks} (`" + _DUMP + "` on their hosts)",
    "`hvdprof analyze` reads the dumps. {then}",
    command=_DUMP,
)
_ENDED = advice("read the output of {ranks} first, {since}", "{then}")
_OF_MISSING = "Look there for an exception, an evaluation or checkpoint, or fewer batches."
_OF_APART = "They wait in different calls: compare what leads to these tensors on each rank."


def stalled_ranks(stalls: pd.DataFrame) -> Iterator[Finding]:
    """The stall warnings of one file, with the ranks to look at; none where no rank is named.

    Args:
        stalls: Rows of STALLS of one file.
    """
    missing = missing_rows(stalls)
    if missing.empty:
        return
    ranks = sorted({int(rank) for rank in missing["stalled_rank"]})
    row = missing.iloc[0].to_dict()
    ended, since = bool(stalls["shutdown"].any()), _since(stalls)
    action = (_ENDED if ended else _LIVE).formatted(
        ranks=ranks_named(ranks),
        since=f"from {since} on" if since else "before its last line",
        then=_OF_APART if _are_apart(_lacking(_last(missing))) else _OF_MISSING,
    )
    yield Finding(
        STALLED,
        "error" if ended else "warning",
        ranks_named(ranks),
        "stalled tensors",
        sentences(
            stall_sentence(stalls),
            f"Ranks have waited since {since} or earlier (clock of the log)." if since else "",
            "Horovod shut the job down." if ended else "",
        ),
        action,
        "likely" if (stalls["state"] == "ready").any() else "certain",
        str(row["file"]),
        int(row["line"]),
        detail=f"missing on {ranks_named(ranks)}",
    )


def _since(stalls: pd.DataFrame) -> str:
    """The latest time at which ranks began to wait, by the clock of the log; else empty."""
    known = stalls.dropna(subset=["time_ns", "waited_s"])
    if known.empty:
        return ""
    began_s = int(known["time_ns"].iloc[0]) / 1e9 - float(known["waited_s"].iloc[0])
    return time.strftime("%H:%M:%S", time.gmtime(began_s))


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
    missing = missing_rows(stalls)
    ranks = sorted({int(rank) for rank in missing["stalled_rank"]})
    if not ranks:
        return f"Stall: {tensors} stalled{during}."
    last = _last(missing)
    if _are_apart(_lacking(last)) and not stalls["cut"].all():
        cut = "ranks lack different tensors, in lists that are cut"
        what = cut if stalls["cut"].any() else "ranks submitted different tensors"
        return f"Stall{during.replace(' for', ' of', 1)}: {what} ({_divergence(last)})."
    number = units.counted(int(missing["tensor"].nunique()), "tensor")
    at_least = "at least " if stalls["cut"].any() else ""
    left = sorted({int(rank) for rank in last["stalled_rank"]})
    now = f"; in the last warning {ranks_named(left)}" if left != ranks else ""
    return f"Stall: {ranks_named(ranks)} did not submit {at_least}{number}{during}{now}."


def _short(tensor: str) -> str:
    """The end of a name, which distinguishes it."""
    if len(tensor) <= _MOST_NAME_CHARACTERS:
        return tensor
    return f"\N{HORIZONTAL ELLIPSIS}{tensor[-_MOST_NAME_CHARACTERS:]}"


def missing_rows(stalls: pd.DataFrame) -> pd.DataFrame:
    """The rows of ranks that did not submit; old Horovod lists those that did."""
    if (stalls["state"] == "ready").any():
        stalls = pd.concat([stalls, _missing_of_ready(stalls)])
    return stalls[((stalls["state"] == "missing") & (stalls["stalled_rank"] >= 0)).to_numpy()]


def _last(missing: pd.DataFrame) -> pd.DataFrame:
    return missing[missing["warning"].eq(missing["warning"].max()).to_numpy()]


def _lacking(missing: pd.DataFrame) -> dict[int, set[str]]:
    """The tensors that each rank did not submit."""
    return {
        int(str(rank)): {str(tensor) for tensor in own["tensor"]}
        for rank, own in missing.groupby("stalled_rank", sort=True)
    }


def _are_apart(lacking: Mapping[int, set[str]]) -> bool:
    """Whether each of two ranks has submitted a tensor that the other has not: both are stuck."""
    return any(one - other and other - one for one, other in combinations(lacking.values(), 2))


def _divergence(missing: pd.DataFrame) -> str:
    """Every rank of a warning with a tensor that it lacks; ranks that lack the same together."""
    by_tensors: dict[frozenset[str], list[int]] = {}
    for rank, lacking in _lacking(missing).items():
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
