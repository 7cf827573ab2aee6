"""What negotiations that are pending at the end of a timeline say: a hang, or just the end.

Tested in ``tests/analyze/files/test_straggler_sentence.py``.
"""

import pandas as pd

from hvdprof import units
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_named

SHORTEST_HANG_NS = 1_000_000_000
LEAST_TIMES_USUAL = 5.0
"""A hang lasts so many times the 95th percentile of the negotiations of its file."""

_ENDED = "Pending negotiations are a hang, unless the job was ended while ranks waited."


def pending_verdict(pending: pd.DataFrame, usual_ns: float | None) -> FileVerdict:
    """The hang that pending negotiations show; a caveat alone where they are short.

    Horovod writes nothing while all ranks wait, so that a hang may look short.

    Args:
        pending: Rows of PENDING_NEGOTIATIONS of one file.
        usual_ns: 95th percentile of its negotiations; ``None`` without any.
    """
    if pending.empty:
        return FileVerdict("")
    longest_ns = int(pending["pending_ns"].max())
    if longest_ns >= max(SHORTEST_HANG_NS, LEAST_TIMES_USUAL * (usual_ns or 0)):
        waited = f"for {units.seconds(longest_ns / 1e9)} until the end of the file"
        return FileVerdict(f"{_who(pending)} {waited}{_mutual(pending)}.", _ENDED, Gravity.HANG)
    return FileVerdict(
        "",
        f"At the end of the file, {_who(pending, capital=False)}: the recording ended there, or "
        "the job hangs.",
    )


def pending_fact(pending: pd.DataFrame) -> tuple[Fact, ...]:
    """The number of pending negotiations with the ranks that have submitted; none without any."""
    if pending.empty:
        return ()
    longest_ns = int(pending["pending_ns"].max())
    longest = units.milliseconds(longest_ns)
    if longest_ns >= SHORTEST_HANG_NS:
        longest = units.seconds(longest_ns / 1e9)
    largest = pending.value_counts(["submitted_ranks", "missing_ranks"], sort=True)
    submitted, missing = (_numbers(str(ranks)) for ranks in largest.index[0])
    text = f"{_tensors(len(pending))} for {longest}"
    if submitted:
        text += f", submitted by {ranks_named(submitted)}"
    if missing:
        text += f", not by {ranks_named(missing)}"
    return (Fact("num_pending", "pending at the end", len(pending), text=text),)


def _who(pending: pd.DataFrame, *, capital: bool = True) -> str:
    counts = pending["missing_ranks"].value_counts()
    named = [(_numbers(str(ranks)), int(number)) for ranks, number in counts.items() if ranks]
    if not named:
        unknown = "the file does not name the ranks that have not submitted them"
        return f"{_tensors(len(pending))} pending ({unknown})"
    clauses = [
        f"{ranks_named(ranks)} {'has' if len(ranks) == 1 else 'have'} not submitted "
        f"{_tensors(number)}"
        for ranks, number in named[:2]
    ]
    text = " and ".join(clauses)
    return text[0].upper() + text[1:] if capital else text


def _mutual(pending: pd.DataFrame) -> str:
    """Whether no rank has submitted all of the tensors, so that ranks wait for each other."""
    columns = pending[["submitted_ranks", "missing_ranks"]].drop_duplicates()
    missing = [set(_numbers(str(column))) for column in columns["missing_ranks"]]
    everyone = set().union(
        *missing, *(_numbers(str(column)) for column in columns["submitted_ranks"])
    )
    is_mutual = len(missing) > 1 and all(missing) and set().union(*missing) == everyone
    return ": they wait for each other" if is_mutual else ""


def _tensors(number: int) -> str:
    return "1 tensor" if number == 1 else f"{units.count(number)} tensors"


def _numbers(ranks: str) -> list[int]:
    return [int(rank) for rank in ranks.split(", ")] if ranks else []
