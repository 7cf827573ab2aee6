"""Verdict and facts of a report of NCCL's RAS subsystem: who does not answer, and who is behind.

Tested in ``tests/ingest/logs/test_ras_text.py``.
"""

import pandas as pd

from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_listed, ranks_named

_RUNNING = (
    "In a running job the counts differ from moment to moment: query again. In a hang "
    "they do not grow."
)


def ras_verdict(progress: pd.DataFrame) -> FileVerdict:
    """Ranks that do not answer first, then ranks with fewer operations; empty without a report.

    Args:
        progress: Rows of COLLECTIVE_PROGRESS of one file.
    """
    rows = _of_reports(progress)
    if rows.empty:
        return FileVerdict("")
    silent = rows[(rows["status"] != "").to_numpy()]
    if len(silent):
        status = str(silent["status"].iloc[0])
        named = ranks_named(silent["rank"]).capitalize()
        where = f" of communicator {silent['group'].iloc[0]}"
        verb = "is" if len(set(silent["rank"])) == 1 else "are"
        return FileVerdict(
            f"{named}{where} {verb} {status}. Fix: look at the process and its host (dmesg).",
            gravity=Gravity.ERROR,
        )
    behind = _behind(rows)
    if behind is None:
        return FileVerdict("All ranks launched the same number of collectives.", _RUNNING)
    group, low, high, ranks = behind
    verb = "is" if len(ranks) == 1 else "are"
    return FileVerdict(
        f"{ranks_named(ranks).capitalize()} of communicator {group} {verb} behind: {low} of "
        f"{high} collectives launched. Fix: look at the end of their output, and at what they do "
        "instead.",
        _RUNNING,
        Gravity.WARNING,
    )


def ras_facts(progress: pd.DataFrame) -> list[Fact]:
    """Communicators, ranks, and those that do not answer or are behind."""
    rows = _of_reports(progress)
    if rows.empty:
        return []
    silent = rows[(rows["status"] != "").to_numpy()]
    behind = _behind(rows)
    facts = [
        Fact("num_communicators", "communicators", int(rows["group"].nunique())),
        Fact("num_nccl_ranks", "ranks reported", len(rows.drop_duplicates(["group", "rank"]))),
    ]
    if len(silent):
        facts.append(Fact("silent_ranks", "without an answer", ranks_listed(silent["rank"])))
    if behind is not None:
        _, low, high, ranks = behind
        named = ranks_listed(ranks)
        text = f"{named} ({low} of {high} launched)"
        facts.append(Fact("behind_ranks", "ranks with the fewest collectives", named, text=text))
    return facts


def _of_reports(progress: pd.DataFrame) -> pd.DataFrame:
    return progress[(progress["source"] == "ras").to_numpy()]


def _behind(rows: pd.DataFrame) -> tuple[str, int, int, list[int]] | None:
    """Communicator, fewest and most operations and the ranks with the fewest, largest gap first."""
    found = []
    for group, members in rows.dropna(subset=["last_enqueued"]).groupby("group", observed=True):
        low, high = int(members["last_enqueued"].min()), int(members["last_enqueued"].max())
        if low < high:
            ranks = sorted(
                int(rank) for rank in members.loc[members["last_enqueued"] == low, "rank"]
            )
            found.append((str(group), low, high, ranks))
    return max(found, key=lambda gap: gap[2] - gap[1], default=None)
