"""The sentence on the straggler of a timeline, or why it shows none."""

from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from hvdprof import units
from hvdprof.analyze.files.timelines.timeline_sums import TimelineSums
from hvdprof.analyze.ranks.last_rank_verdict import Judged, Words, last_rank_verdict
from hvdprof.analyze.ranks.last_ranks import LEAST_EXPLAINED
from hvdprof.model.file_page import FileVerdict

SHORTEST_STALL_NS = 1_000_000_000
STALL_BY_MEDIAN = 20.0
STALL_BY_STEP = 5.0
LONG_NEGOTIATION = 0.5
"""Median negotiation as a share of the step that shows a straggler.

Ranks without a delay compute gradients apart by a part of backward: in recordings without a
straggler the median is at most 0.36 of the step, with a rank late by 60 ms per step 0.68.
"""

_WHY_NO_STRAGGLER = {
    "none": "after warm-up the file names no rank, or not for every tensor",
    "first use": "the file names the ranks of the first use of each tensor alone, which is warm-up",
    "some uses": "the file names the ranks of some uses only, which are not a fair sample",
}
"""Why a timeline names no straggler, by ``rank_ticks`` of ``TIMELINES``."""

_ONE_RANK = "The file names rank 0 alone: the job ran on one rank, or without a launcher."


def straggler_sentence(sums: TimelineSums, row: Mapping[Hashable, object]) -> FileVerdict:
    """The straggler of the steady steps, and the rank that start-up waits for.

    The rule is that of ``last_rank_verdict``. Without certain steps, executions stand in for them.
    Where the file does not name every rank, a single stall or a long negotiation is stated instead.

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
    verdict = _steady_verdict(sums, sums.size or 1)
    return replace(verdict, sentence=f"{verdict.sentence}{_startup(sums)}")


def first_uses_sentence(sums: TimelineSums) -> str:
    """The rank that first uses wait for, of a file too short for more; empty where none is."""
    found = sums.first_waits.of_rounds()
    if not found or found[0].share < LEAST_EXPLAINED:
        return ""
    return f"First uses wait {units.milliseconds(found[0].gap_ns)} for rank {found[0].rank}."


def counted_steps(num: int) -> str:
    """A number of steady steps."""
    return "1 steady step" if num == 1 else f"{units.count(num)} steady steps"


def _steady_verdict(sums: TimelineSums, num_ranks: int) -> FileVerdict:
    steps = sums.steps.steady
    if len(steps):
        words = Words("submits", counted_steps(len(steps)), "step")
        judged = Judged(sums.last_ranks, steps, len(steps), num_ranks, sums.steady_ns)
    else:
        number = f"{units.count(sums.num_steady)} executions after warm-up"
        words = Words("submits", number, "execution")
        judged = Judged(sums.last_ranks, None, sums.num_steady, num_ranks, sums.steady_ns)
    if not judged.found:
        text = f"No straggler in {words.rounds}: no rank is last by more than a cycle of Horovod."
        return FileVerdict(text)
    verdict = last_rank_verdict(judged, words)
    if judged.named and judged.rounds is None and not _goes_on(sums, judged):
        first = f"{verdict.sentence[0].lower()}{verdict.sentence[1:]}".removesuffix(".")
        return FileVerdict(f"No persistent straggler: {first}, but not in the second half.")
    return verdict


def _goes_on(sums: TimelineSums, judged: Judged) -> bool:
    """Whether a rank is the straggler of the second half too: start-up is unknown without steps."""
    first, last = sums.steady_ids.first_ns or 0, sums.steady_ids.last_ns
    later = np.arange((first + last) // 2, last + 1)
    of_half = replace(judged, rounds=later, num_rounds=len(later), span_ns=sums.steady_ns // 2)
    return {one.rank for one in judged.named[:1]} <= {one.rank for one in of_half.named}


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
    rank = named[0] if named else "no single rank"
    return f" In start-up ({units.count(num)} steps), {rank} is last."


def _long_negotiation(sums: TimelineSums) -> str:
    step_ns, median_ns = sums.steps.step_ns, sums.waits.quantile(0.5)
    if step_ns is None or median_ns is None or median_ns < LONG_NEGOTIATION * step_ns:
        return ""
    return (
        f"Tensors wait for a straggler (negotiation, median {units.milliseconds(median_ns)} of a "
        f"{units.milliseconds(step_ns)} step); the file cannot name the rank."
    )
