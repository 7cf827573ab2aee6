"""Which rank submits collectives last, from submissions alone.

Tested in ``tests/analyze/files/test_dump_pages.py``.
"""

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.model.file_page import Fact
from hvdprof.model.tables.rank_collective_tables import NO_MATCH

_MOST_RANKS = 4


def last_to_submit_facts(calls: pd.DataFrame) -> list[Fact]:
    """How often each rank is last, and by how much; empty without matched collectives.

    Sends and receives have no last rank.

    Args:
        calls: Rows of RANK_COLLECTIVES of one job.
    """
    matched = calls[(calls["match_id"] != NO_MATCH).to_numpy() & calls["submitted_ns"].notna()]
    if matched.empty:
        return []
    ordered = matched.sort_values(["match_id", "submitted_ns"])
    ids = ordered["match_id"].to_numpy()
    ends = np.flatnonzero(np.append(ids[1:] != ids[:-1], True))
    times = ordered["submitted_ns"].to_numpy(dtype=np.int64)
    # Matched collectives have two ranks or more.
    last = pd.DataFrame(
        {"rank": ordered["rank"].to_numpy()[ends], "gap_ns": times[ends] - times[ends - 1]}
    )
    by_rank = last.groupby("rank")["gap_ns"].agg(["size", "median"])
    by_rank = by_rank.sort_values(["size", "median"], ascending=False)
    top = int(by_rank.index[0])
    lines = [
        f"rank {rank}: {int(row['size'])} of {len(last)}, median "
        f"{units.milliseconds(float(row['median']))} behind the next to last"
        for rank, row in by_rank.head(_MOST_RANKS).iterrows()
    ]
    if more := len(by_rank) - len(lines):
        lines.append(f"and {units.counted(more, 'rank')} more")
    return [
        Fact("num_matched", "collectives matched across ranks", len(last)),
        Fact("last_rank", "last to submit, by the hosts' own clocks", top, text="\n".join(lines)),
    ]
