"""Which rank is behind, by the last collective that each rank says it enqueued.

A rank that enqueued fewer collectives than the others of its process group did not reach the next
one: the others wait there. The output of all ranks counts, in one file or in one per rank.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences
from hvdprof.analyze.findings.finding import Finding
from hvdprof.rank_names import ranks_named

BEHIND_RULE = "ranks-behind"
_ACTION = advice(
    "look at what {ranks} did there: the end of the output",
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 record the collectives of "
    "every rank for `hvdprof analyze`.",
    command="hvdprof analyze",
)


def ranks_behind(timeouts: pd.DataFrame) -> Iterator[Finding]:
    """The ranks of the default process group with the fewest collectives, where ranks differ.

    Nothing where a rank has two states: then the files are of several jobs. Other groups are left
    out: one number stands for other ranks on other hosts.

    Args:
        timeouts: Rows of COLLECTIVE_TIMEOUTS of all files.
    """
    known = timeouts.dropna(subset=["rank", "last_enqueued"])
    default = [str(group).split(" ")[0] == "0" for group in known["group"]]
    known = known[np.array(default, dtype=bool)]
    # A rank that times out twice has enqueued more in between: its last state counts in a file.
    last = known.sort_values("last_enqueued", kind="stable").drop_duplicates(
        ["file", "rank"], keep="last"
    )
    if last["rank"].duplicated().any() or last["last_enqueued"].nunique() < 2:
        return
    low, high = int(last["last_enqueued"].min()), int(last["last_enqueued"].max())
    behind = last[last["last_enqueued"].eq(low).to_numpy()]
    row = behind.iloc[0].to_dict()
    ranks = sorted(int(rank) for rank in behind["rank"])
    others = sorted({int(rank) for rank in last["rank"]} - set(ranks))
    completed = behind["last_completed"].dropna()
    done = f", completed {int(completed.min())}" if len(completed) else ""
    named = ranks_named(ranks)
    yield Finding(
        BEHIND_RULE,
        "error",
        named,
        f"{named} behind",
        sentences(
            f"Last collective enqueued by {named}: {low}{done}.",
            f"{ranks_named(others).capitalize()} enqueued up to {high}.",
            "They wait in the first one that is missing.",
        ),
        _ACTION.formatted(ranks=named),
        "likely",
        str(row["file"]),
        int(row["line"]),
        str(row["message"]),
        detail=f"{units.counted(high - low, 'collective')} missing",
    )
