"""Which rank submits collectives last, from submissions alone, and how sure that is.

Tested in ``tests/analyze/files/test_last_to_submit.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.timelines.last_ranks import (
    LARGEST_CHANCE,
    LEAST_ROUNDS,
    LastRank,
    LastRanks,
)
from hvdprof.analyze.files.timelines.straggler_sentence import LEAST_EXPLAINED, is_persistent
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.analyze.stats.running_summaries import RunningUnion
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.model.tables.rank_collective_tables import NO_MATCH

_MOST_RANKS = 4
_IN_STEP = 0.25
"""Least share of collectives that ranks submit as separate occasions, if their clocks agree.

In a step of DDP, a rank submits all buckets before it waits for them: 4 buckets are one occasion.
"""


def last_to_submit_facts(calls: pd.DataFrame) -> list[Fact]:
    """How often each rank is last, and by how much; empty without matched collectives.

    Sends and receives have no last rank.

    Args:
        calls: Rows of RANK_COLLECTIVES of one job.
    """
    last = _last_of_each(calls)
    if last.empty:
        return []
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


def last_to_submit_verdict(calls: pd.DataFrame) -> FileVerdict:
    """The rank that the others wait for, or why none is named; empty without whole collectives.

    Collectives of one group whose submissions overlap in time, such as the buckets of a step, are
    one occasion. A rank is named if it causes 80 % of the waits for the last rank, these take 5 %
    of the recorded time or more, and chance makes no rank last on as many occasions (at a level of
    2 %, on at least 4). Of several groups, the one with the longest waits counts.

    Args:
        calls: Rows of RANK_COLLECTIVES of one job.
    """
    groups = list(_groups(_last_of_each(calls)))
    if not groups:
        return FileVerdict("")
    worst = max(groups, key=lambda group: group.share)
    is_gpu = not calls["name"].astype(str).str.startswith("gloo:").all()
    return _verdict(worst, len(groups), is_gpu=is_gpu)


@dataclass(frozen=True, slots=True)
class _Group:
    """The whole collectives of one process group.

    ``last`` has the last rank of each and its gap to the next to last, ``found`` the ranks that
    occasions wait for, the longest wait first, and ``share`` is that of the recorded time in which
    ranks wait for the first of these.
    """

    name: str
    num_ranks: int
    last: pd.DataFrame
    found: tuple[LastRank, ...]
    num_occasions: int
    share: float

    def lasts(self, rank: int) -> str:
        """How often a rank is last, and by how much."""
        gaps = self.last.loc[(self.last["rank"] == rank).to_numpy(), "gap_ns"]
        return (
            f"{len(gaps)} of {units.counted(len(self.last), 'collective')}, median "
            f"{self.gap(rank)} after the next to last"
        )

    def gap(self, rank: int) -> str:
        """The median time from the next to last rank to this one."""
        gaps = self.last.loc[(self.last["rank"] == rank).to_numpy(), "gap_ns"]
        return units.milliseconds(float(gaps.median()))


def _verdict(group: _Group, num_groups: int, *, is_gpu: bool) -> FileVerdict:
    where = f" of process group {group.name}" if num_groups > 1 else ""
    number = units.counted(len(group.last), "collective")
    if len(group.last) >= 2 * LEAST_ROUNDS and group.num_occasions < _IN_STEP * len(group.last):
        return FileVerdict(
            "The last rank is unknown.",
            f"Submissions of {number}{where} overlap on only "
            f"{units.counted(group.num_occasions, 'occasion')}: the clocks of the hosts differ, or "
            "ranks submit far ahead. Arrivals are not comparable.",
        )
    if group.num_occasions < LEAST_ROUNDS:
        return FileVerdict(
            "", f"{number}{where} on {units.counted(group.num_occasions, 'occasion')} are too few "
            "to say which rank submits last."
        )  # fmt: skip
    top = group.found[0]
    share = units.percent(group.share)
    chance = LARGEST_CHANCE / num_groups
    if group.share < SMALLEST_COST:
        return FileVerdict(
            f"No straggler: the longest waits for a rank to submit{where} are {share} of the "
            f"recorded time (rank {top.rank}, last in {group.lasts(top.rank)})."
        )
    if not is_persistent(group.found, group.num_ranks, chance):
        often = max(group.found, key=lambda last: last.num_rounds)
        return FileVerdict(
            f"No persistent straggler: the last rank to submit{where} changes; most often it is "
            f"rank {often.rank}, in {group.lasts(often.rank)}."
        )
    if top.share < LEAST_EXPLAINED:
        return FileVerdict(
            f"No single straggler: rank {top.rank} submits last in {group.lasts(top.rank)}{where}, "
            f"but causes {units.percent(top.share)} of the waits alone."
        )
    ahead = (
        " Hosts submit ahead of their GPUs, so that the GPU may wait for less." if is_gpu else ""
    )
    return FileVerdict(
        f"By the clocks of the hosts, rank {top.rank} submits last in {group.lasts(top.rank)}"
        f"{where}, and the others wait for it {share} of the recorded time.",
        f"Dumps name no hosts: with several, a clock of rank {top.rank} that is "
        f"{group.gap(top.rank)} fast looks the same. On one host the straggler is certain.{ahead}",
        Gravity.WARNING,
    )


def _last_of_each(calls: pd.DataFrame) -> pd.DataFrame:
    """The last rank of each matched collective, with its group and the times of submission."""
    matched = calls[(calls["match_id"] != NO_MATCH).to_numpy() & calls["submitted_ns"].notna()]
    ordered = matched.sort_values(["match_id", "submitted_ns"])
    ids = ordered["match_id"].to_numpy()
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    ends = np.append(starts[1:], len(ids))[: len(starts)] - 1
    times = ordered["submitted_ns"].to_numpy(dtype=np.int64)
    # Matched collectives have two ranks or more.
    return pd.DataFrame(
        {
            "group": ordered["group"].astype(str).to_numpy()[ends],
            "group_size": ordered["group_size"].array[ends],
            "num_ranks": ends - starts + 1,
            "lowest_rank": np.minimum.reduceat(ordered["rank"].to_numpy(), starts)
            if len(starts)
            else [],
            "rank": ordered["rank"].to_numpy()[ends],
            "first_ns": times[starts],
            "second_last_ns": times[ends - 1],
            "last_ns": times[ends],
            "gap_ns": times[ends] - times[ends - 1],
        }
    )


def _groups(last: pd.DataFrame) -> Iterator[_Group]:
    """The groups with collectives that all of their ranks submitted."""
    # Gloo does not list the ranks of a group: there the collectives with most ranks are whole.
    largest = last.groupby("group")["num_ranks"].transform("max")
    whole = last[(last["num_ranks"] == last["group_size"].fillna(largest)).to_numpy(dtype=bool)]
    # Two groups of one name have no rank in common.
    for (name, _), members in whole.groupby(["group", "lowest_rank"], sort=False):
        rows = members.sort_values("first_ns", kind="stable")
        first, end = (rows[key].to_numpy(dtype=np.int64) for key in ("first_ns", "last_ns"))
        is_new = first[1:] > np.maximum.accumulate(end)[:-1]
        rows = rows.assign(occasion=np.cumsum(np.append(np.zeros(1, dtype=np.int64), is_new)))
        if rows["occasion"].iloc[-1] >= LEAST_ROUNDS:
            # Processes start at different moments, and wait for that in their first collective.
            rows = rows[(rows["occasion"] > 0).to_numpy()]
        begin, end, ranks, occasions = (
            rows[key].to_numpy(dtype=np.int64)
            for key in ("second_last_ns", "last_ns", "rank", "occasion")
        )
        waits = LastRanks()
        waits.add(occasions, ranks, begin, end)
        found = waits.of_rounds()
        if not found:
            continue
        mine = ranks == found[0].rank
        waited = RunningUnion()
        waited.add(begin[mine], end[mine])
        yield _Group(
            name=str(name),
            num_ranks=int(rows["num_ranks"].iloc[0]),
            last=rows,
            found=found,
            num_occasions=len(np.unique(occasions)),
            share=waited.length / max(int(end.max() - rows["first_ns"].min()), 1),
        )
