"""Which rank arrives last at the collectives of a recording, and how sure that is."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.communication.matched_collectives import RELEASES_TOGETHER, matched_gaps
from hvdprof.analyze.ranks.last_rank_verdict import Judged, Words, last_rank_verdict
from hvdprof.analyze.ranks.last_ranks import LEAST_ROUNDS, LastRank, LastRanks
from hvdprof.model.file_page import Fact, FileVerdict
from hvdprof.model.tables.rank_collective_tables import UNBOUNDED_CLOCK_NS
from hvdprof.model.tables.waiting_tables import CLOCKS

_MOST_RANKS = 4
_IN_STEP = 0.25
"""Least share of collectives that ranks submit as separate rounds, if their clocks agree.

In a step of DDP, a rank submits all buckets before it waits for them: 4 buckets are one round.
"""

_NOUNS = {
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
    "BARRIER": "barrier",
}


@dataclass(frozen=True, slots=True)
class CallWaits:
    """The waits for the last rank in the whole collectives of one process group.

    Attributes:
        group: Its name.
        judged: The rounds: steps where all calls are in steps, else calls that overlap in time.
        matched: MATCHED_COLLECTIVES of these, with ``doubt_ns``.
        by_step: Rounds are steps.
        is_submission: The calls hold when hosts submit them, not when they start.
        on_gpu: They run on GPUs.
    """

    group: str
    judged: Judged
    matched: pd.DataFrame
    by_step: bool
    is_submission: bool
    on_gpu: bool

    @property
    def longest_share(self) -> float:
        """The longest wait for a rank as a share of the recorded time."""
        found = self.judged.found
        return found[0].total_ns / self.judged.span_ns if found else 0.0

    @property
    def knows_clocks(self) -> bool:
        """Whether something bounds the clocks against each other."""
        return bool((self.matched["doubt_ns"] < UNBOUNDED_CLOCK_NS).all())

    @property
    def words(self) -> Words:
        """What the rounds are called."""
        kinds = set(self.matched["collective"].astype(str))
        noun = _NOUNS[kinds.pop()] if len(kinds) == 1 else "collective"
        calls, does = units.counted(len(self.matched), noun), "arrives"
        if self.is_submission:
            does = "submits"
        if self.by_step:
            return Words(does, units.counted(self.judged.num_rounds, "step"), "step")
        if self.judged.num_rounds == len(self.matched):
            return Words(does, calls, "call")
        return Words(does, units.counted(self.judged.num_rounds, "round"), "round", f" ({calls})")


def call_waits(calls: pd.DataFrame, gaps: pd.DataFrame) -> list[CallWaits]:
    """The waits in each process group, the group with the longest waits for a rank first.

    Collectives count that all ranks of a group recorded, and that no rank leaves before the last
    one arrives. A gap within the error of the clocks is no wait; where nothing bounds the clocks,
    arrivals count as they are, unless the ends of the calls align them. The first round, which
    waits for the start of processes, is left out of four or more.

    Args:
        calls: Rows of RANK_COLLECTIVES.
        gaps: Their ``matched_gaps``.
    """
    found = gaps[gaps["collective"].isin(RELEASES_TOGETHER).to_numpy(dtype=bool)]
    # Gloo does not list the ranks of a group: there the collectives with most ranks are whole.
    keys = ["pass_id", "segment", "group"]
    largest = found.groupby(keys)["num_ranks"].transform("max")
    is_whole = found["num_ranks"] == found["group_size"].fillna(largest)
    whole = found[is_whole.to_numpy(dtype=bool)]
    # Two groups of one name have no rank in common.
    groups = [rows for _, rows in whole.groupby([*keys, "lowest_rank"], sort=False)]
    is_submission = bool(calls["start_ns"].isna().all())
    on_gpu = not calls["name"].astype(str).str.startswith("gloo:").all()
    made = [_waits(rows, len(groups), is_submission, on_gpu) for rows in groups]
    return sorted(made, key=lambda one: one.longest_share, reverse=True)


def _waits(rows: pd.DataFrame, num_groups: int, is_submission: bool, on_gpu: bool) -> CallWaits:
    rows = rows.sort_values("first_ns", kind="stable")
    by_step = bool((rows["step"] >= 0).all())
    if by_step:
        rounds = rows["step"].to_numpy(np.int64)
    else:
        first, end = (rows[key].to_numpy(np.int64) for key in ("first_ns", "last_ns"))
        is_new = first[1:] > np.maximum.accumulate(end)[:-1]
        rounds = np.cumsum(np.append(np.zeros(1, dtype=np.int64), is_new))
    known = np.unique(rounds)
    if len(known) > LEAST_ROUNDS:
        rows, rounds, known = rows[rounds > known[0]], rounds[rounds > known[0]], known[1:]
    begin, end, ranks = (
        rows[key].to_numpy(np.int64) for key in ("second_last_ns", "last_ns", "last_rank")
    )
    transfer = rows["transfer_ns"].fillna(0).to_numpy(np.int64)
    is_wait = rows["decided"].to_numpy(bool) | (rows["doubt_ns"] >= UNBOUNDED_CLOCK_NS).to_numpy()
    waits = LastRanks()
    waits.add(rounds[is_wait], ranks[is_wait], begin[is_wait], end[is_wait])
    judged = Judged(
        waits=waits,
        rounds=known,
        num_rounds=len(known),
        num_ranks=int(rows["num_ranks"].iloc[0]),
        span_ns=max(int((end + transfer).max() - rows["first_ns"].min()), 1),
        num_tests=num_groups,
    )
    return CallWaits(str(rows["group"].iloc[0]), judged, rows, by_step, is_submission, on_gpu)


def last_to_submit_facts(calls: pd.DataFrame, gaps: pd.DataFrame | None = None) -> list[Fact]:
    """How often each rank is last, and by how much; empty without matched collectives.

    Sends and receives have no last rank.

    Args:
        calls: Rows of RANK_COLLECTIVES of one job.
        gaps: Their ``matched_gaps``, where computed.
    """
    last = matched_gaps(calls, CLOCKS.empty()) if gaps is None else gaps
    if last.empty:
        return []
    behind = (last["last_ns"] - last["second_last_ns"]).groupby(last["last_rank"])
    by_rank = behind.agg(["size", "median"])
    by_rank = by_rank.sort_values(["size", "median"], ascending=False)
    lines = [
        f"rank {rank}: {int(row['size'])} of {len(last)}, median "
        f"{units.milliseconds(float(row['median']))} behind the next to last"
        for rank, row in by_rank.head(_MOST_RANKS).iterrows()
    ]
    if more := len(by_rank) - len(lines):
        lines.append(f"and {units.counted(more, 'rank')} more")
    top, what = int(by_rank.index[0]), "arrive"
    if calls["start_ns"].isna().all():
        what = "submit"
    clock = ", by the hosts' own clocks" if (last["doubt_ns"] >= UNBOUNDED_CLOCK_NS).any() else ""
    return [
        Fact("num_matched", "collectives matched across ranks", len(last)),
        Fact("last_rank", f"last to {what}{clock}", top, text="\n".join(lines)),
        *_wait_facts(call_waits(calls, last)),
    ]


def _wait_facts(groups: list[CallWaits]) -> Iterator[Fact]:
    """The mean wait for each rank that is named, with its 95 % interval."""
    for one in groups[:1]:
        for last in one.judged.named[:1]:
            mean = one.judged.waits.mean_wait(last.rank, one.judged.rounds)
            ends = f"{units.milliseconds(mean.low)} to {units.milliseconds(mean.high)}"
            text = f"{units.milliseconds(mean.value)} per {one.words.per} (95 % CI {ends})"
            label = f"the others wait for rank {last.rank}"
            yield Fact("last_rank_wait_ns", label, mean.value, "ns", text)


def last_to_submit_verdict(calls: pd.DataFrame, gaps: pd.DataFrame | None = None) -> FileVerdict:
    """The rank that the others wait for, or why none is named; empty without whole collectives.

    Of several process groups, the one with the longest waits counts.

    Args:
        calls: Rows of RANK_COLLECTIVES of one job.
        gaps: Their ``matched_gaps``, where computed.
    """
    groups = call_waits(calls, matched_gaps(calls, CLOCKS.empty()) if gaps is None else gaps)
    return _verdict(groups[0], len(groups)) if groups else FileVerdict("")


def _verdict(group: CallWaits, num_groups: int) -> FileVerdict:
    where = f" of process group {group.group}" if num_groups > 1 else ""
    calls, judged, words = len(group.matched), group.judged, group.words
    words = Words(words.does, words.rounds, words.per, f"{words.where}{where}")
    is_unknown = not group.knows_clocks
    if is_unknown and calls >= 2 * LEAST_ROUNDS and judged.num_rounds < _IN_STEP * calls:
        return FileVerdict(
            "The last rank is unknown.",
            f"Submissions of {units.counted(calls, 'collective')}{where} overlap in only "
            f"{units.counted(judged.num_rounds, 'round')}: the clocks of the hosts differ, or "
            "ranks submit far ahead. Arrivals are not comparable.",
        )
    if not judged.found:
        error = units.milliseconds(float(group.matched["doubt_ns"].max()))
        return FileVerdict(
            f"No straggler can be named: the last two ranks{where} are never further apart than "
            f"the error of their clocks ({error})."
        )
    verdict = last_rank_verdict(judged, words)
    if not judged.named:
        return verdict
    text = verdict.sentence
    if is_unknown:
        text = f"By the clocks of the hosts, {text[0].lower()}{text[1:]}"
    caveats = (verdict.caveat, _of_clocks(group, judged.named[0]))
    return FileVerdict(text, " ".join(filter(None, caveats)), verdict.gravity)


def _of_clocks(group: CallWaits, last: LastRank) -> str:
    """What the clocks of the hosts leave open."""
    if group.knows_clocks:
        error_ns = float(group.matched["doubt_ns"].max())
        error = units.milliseconds(error_ns)
        return f"Gaps within the error of the clocks (up to {error}) do not count." * (error_ns > 0)
    ahead = (
        " Hosts submit ahead of their GPUs, so that the GPU may wait for less."
        if group.on_gpu and group.is_submission
        else ""
    )
    return (
        "The files do not bound the clocks of hosts: with several, a clock of rank "
        f"{last.rank} that is {units.milliseconds(last.gap_ns)} fast looks the same. On one host "
        f"the straggler is certain.{ahead}"
    )
