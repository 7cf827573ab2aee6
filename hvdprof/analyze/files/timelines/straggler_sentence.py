"""The sentence on the straggler of a timeline, or why it shows none."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from hvdprof import units
from hvdprof.analyze.files.timelines.last_ranks import (
    LARGEST_CHANCE,
    Change,
    LastRank,
    is_beyond_chance,
)
from hvdprof.analyze.files.timelines.timeline_sums import TimelineSums
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.model.file_page import FileVerdict

LEAST_EXPLAINED = 0.8
LEAST_ROUNDS_OF_CHANGE = 10
SHORTEST_STALL_NS = 1_000_000_000
STALL_BY_MEDIAN = 20.0
STALL_BY_STEP = 5.0
LONG_NEGOTIATION = 0.5
"""Median negotiation as a share of the step that shows a straggler.

Ranks without a delay compute gradients apart by a part of backward: in recordings without a
straggler the median is at most 0.36 of the step, with a rank late by 60 ms per step 0.68.
"""

_FAR_MORE = 3

_WHY_NO_STRAGGLER = {
    "none": "after warm-up the file names no rank, or not for every tensor",
    "first use": "the file names the ranks of the first use of each tensor alone, which is warm-up",
    "some uses": "the file names the ranks of some uses only, which are not a fair sample",
}
"""Why a timeline names no straggler, by ``rank_ticks`` of ``TIMELINES``."""

_ONE_RANK = "The file names rank 0 alone: the job ran on one rank, or without a launcher."


def straggler_sentence(sums: TimelineSums, row: Mapping[Hashable, object]) -> FileVerdict:
    """The straggler of the steady steps, and the rank that start-up waits for.

    A rank is a straggler if waits for the last rank take 5 % of the time or more, it causes 80 % of
    them, and chance makes no rank last as often (at a level of 2 %, in at least 4 steps). Without
    certain steps, executions stand in for them. Where the file does not name every rank, a single
    stall or a long negotiation is stated instead.

    Args:
        sums: Sums over the rows of one file.
        row: The row of TIMELINES of the same file.
    """
    if sums.size == 1:
        return FileVerdict("", _ONE_RANK)
    ticks = str(row["rank_ticks"])
    if not sums.names_every_rank(ticks):
        reason = f"No straggler can be named: {_WHY_NO_STRAGGLER[ticks]}."
        return FileVerdict(_stall(sums) or _long_negotiation(sums), reason)
    return FileVerdict(f"{_steady_sentence(sums, sums.size or 1)}{_startup(sums)}.")


def first_uses_sentence(sums: TimelineSums) -> str:
    """The rank that first uses wait for, of a file too short for more; empty where none is."""
    found = sums.first_waits.of_rounds()
    if not found or found[0].share < LEAST_EXPLAINED:
        return ""
    return f"First uses wait {units.milliseconds(found[0].wait_ns)} for rank {found[0].rank}."


def counted_steps(num: int) -> str:
    """A number of steady steps."""
    return "1 steady step" if num == 1 else f"{units.count(num)} steady steps"


def _steady_sentence(sums: TimelineSums, num_ranks: int) -> str:
    has_steps = bool(len(sums.steps.steady))
    chosen = sums.steps.steady if has_steps else None
    num = len(sums.steps.steady) if has_steps else sums.num_steady
    where = counted_steps(num) if has_steps else f"{units.count(num)} executions after warm-up"
    found = sums.last_ranks.of_rounds(chosen)
    if not found:
        return f"No straggler in {where}: no rank is last by more than a cycle of Horovod"
    share = sums.waiting.length / sums.steady_ns
    if share < SMALLEST_COST:
        waits = units.percent(share)
        return f"No straggler in {where}: waits for the last rank are {waits} of the time"
    top = found[0]
    last = f"last in {units.count(top.num_rounds)} of {where}, by {_wait(top)}"
    persists = top.share >= LEAST_EXPLAINED and is_persistent(found, num_ranks)
    if persists and not has_steps and not _goes_on(sums, top.rank, num_ranks):
        return f"No persistent straggler: rank {top.rank} is {last}, but not in the second half"
    if persists:
        return f"Rank {top.rank} is a straggler: {last}{_part(top, num) if has_steps else ''}"
    if top.share >= LEAST_EXPLAINED:
        return f"No persistent straggler: rank {top.rank} is {last}"
    change = sums.last_ranks.change(sums.steps.steady, LEAST_EXPLAINED, LEAST_ROUNDS_OF_CHANGE)
    if change is not None and _holds(change, sums, num_ranks):
        return (
            f"The straggler changes: rank {change.rank_before} before step "
            f"{units.count(change.first_round_after)}, rank {change.rank_after} from there on; "
            f"waits for it are {units.percent(share)} of the time"
        )
    return (
        f"No persistent straggler in {where}: waits for the last rank are {units.percent(share)} "
        f"of the time, and it changes"
    )


def _holds(change: Change, sums: TimelineSums, num_ranks: int) -> bool:
    """Whether both ranks are last beyond chance; the step of the change was chosen of many."""
    steady = sums.steps.steady
    is_before = steady < change.first_round_after
    sides = [(change.rank_before, steady[is_before]), (change.rank_after, steady[~is_before])]
    for rank, rounds in sides:
        found = sums.last_ranks.of_rounds(rounds)
        chance = LARGEST_CHANCE / len(steady)
        if found[0].rank != rank or not is_persistent(found, num_ranks, chance):
            return False
    return True


def is_persistent(
    found: Sequence[LastRank], num_ranks: int, largest_chance: float = LARGEST_CHANCE
) -> bool:
    """Whether the first rank is last more often than by chance, in 4 rounds or more.

    Args:
        found: One or more ranks, the longest wait first.
        num_ranks: Ranks among which one is last.
        largest_chance: Of one of them being last so often, were the last one drawn by lot.
    """
    total = sum(last.num_rounds for last in found)
    return is_beyond_chance(found[0].num_rounds, total, num_ranks, largest_chance)


def _goes_on(sums: TimelineSums, rank: int, num_ranks: int) -> bool:
    """Whether a rank is the straggler of the second half too: start-up is unknown without steps."""
    first, last = sums.steady_ids.first_ns or 0, sums.steady_ids.last_ns
    found = sums.last_ranks.of_rounds(np.arange((first + last) // 2, last + 1))
    return (
        bool(found)
        and found[0].rank == rank
        and found[0].share >= LEAST_EXPLAINED
        and is_persistent(found, num_ranks)
    )


def _stall(sums: TimelineSums) -> str:
    """The one negotiation that lasts far longer than the others and than a step, if there is."""
    longest, median_ns = sums.longest_wait, sums.waits.quantile(0.5)
    if longest is None or median_ns is None:
        return ""
    usual_ns = max(STALL_BY_MEDIAN * median_ns, STALL_BY_STEP * (sums.steps.step_ns or 0))
    if longest.length_ns < max(SHORTEST_STALL_NS, usual_ns):
        return ""
    rank = "a rank that the file does not name"
    if longest.last_rank is not None:
        rank = f"rank {longest.last_rank}"
    where = f" in step {units.count(longest.step)}" if longest.step >= 0 else ""
    share = units.percent(longest.length_ns / sums.steady_ns)
    waited = units.seconds(longest.length_ns / 1e9)
    return f"Stall{where}: tensors wait {waited} for {rank}, {share} of the time."


def _wait(last: LastRank) -> str:
    """The median wait, and the longest where that is far more."""
    median = units.milliseconds(last.wait_ns)
    if last.longest_ns < _FAR_MORE * last.wait_ns:
        return median
    return f"{median}, at most {units.milliseconds(last.longest_ns)}"


def _part(last: LastRank, num_steps: int) -> str:
    """The part of the steps in which a rank is last, where that is half of them or less."""
    if last.last_round - last.first_round >= num_steps / 2:
        return ""
    return f", all between steps {units.count(last.first_round)} and {units.count(last.last_round)}"


def _startup(sums: TimelineSums) -> str:
    num = sums.steps.num_startup
    if not num:
        return ""
    found = sums.last_ranks.of_rounds(sums.steps.startup)
    named = [
        f"rank {last.rank}"
        for last in found[:1]
        if last.share >= LEAST_EXPLAINED and 2 * last.num_rounds >= num
    ]
    return f" (start-up, {units.count(num)} steps: {named[0] if named else 'no single rank'})"


def _long_negotiation(sums: TimelineSums) -> str:
    step_ns, median_ns = sums.steps.step_ns, sums.waits.quantile(0.5)
    if step_ns is None or median_ns is None or median_ns < LONG_NEGOTIATION * step_ns:
        return ""
    return (
        f"Tensors wait for a straggler (negotiation, median {units.milliseconds(median_ns)} of a "
        f"{units.milliseconds(step_ns)} step); the file cannot name the rank."
    )
