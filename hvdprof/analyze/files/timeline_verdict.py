"""What a lone Horovod timeline comes down to, in a sentence or two."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.next_recording import SCALING_COMMAND
from hvdprof.analyze.files.timeline_sums import TimelineSums
from hvdprof.analyze.findings.finding import SMALLEST_COST

LEAST_EXPLAINED = 0.8
LEAST_EXECUTIONS = 5
LEAST_CONFIDENCE = 0.5

_TOLD_OF_RANKS = {
    "none": "after warm-up the file names no rank, or not for every tensor",
    "first use": "the file names the ranks of the first use of each tensor alone, which is warm-up",
    "some uses": "the file names the ranks of some uses only, and those are not a fair sample",
}
"""What a timeline tells of ranks, by ``rank_ticks`` of ``TIMELINES``, where it is not all."""


def timeline_verdict(
    uses: pd.DataFrame,
    executions: pd.DataFrame,
    inferred: pd.DataFrame,
    told: Mapping[str, Any],
) -> str:
    """How much of a step communication takes, whom it waits for, and that scaling is not in it.

    A rank is named only where the file tells every tensor's ranks, the gaps before the last rank
    make up 5 % of the time looked at or more, and that rank stands for 80 % of them.

    Args:
        uses: Rows of TENSOR_USES of one file.
        executions: Rows of EXECUTIONS of the same file.
        inferred: Rows of INFERRED_STEPS of the same file.
        told: The row of TIMELINES of the same file.
    """
    sums = TimelineSums()
    sums.add_uses(uses)
    sums.add_executions(executions)
    return verdict_of_sums(sums, inferred, told)


def verdict_of_sums(sums: TimelineSums, inferred: pd.DataFrame, told: Mapping[str, Any]) -> str:
    """As ``timeline_verdict``, of sums over the rows of the file."""
    # Five executions of no length at one moment last nothing altogether.
    if sums.num_steady < LEAST_EXECUTIONS or not sums.steady.length_ns:
        return (
            f"Too short for an answer: {units.count(sums.num_steady)} executions after warm-up, "
            f"fewer than {LEAST_EXECUTIONS}."
        )
    parts = [_share_of_steps(sums, inferred)]
    parts.append(_late_rank(sums, told))
    parts.append(
        f"How well the job scales is not in this file: `{SCALING_COMMAND}` measures it, with the "
        "script as it is."
    )
    return " ".join(part for part in parts if part)


def _share_of_steps(sums: TimelineSums, inferred: pd.DataFrame) -> str:
    lengths = inferred.loc[inferred["complete"], "dur_ns"].dropna()
    share = sums.executing_steady.length / sums.steady.length_ns
    if lengths.empty or float(inferred["confidence"].iloc[0]) < LEAST_CONFIDENCE:
        return (
            f"Collectives are carried out in {units.percent(share)} of the time; steps cannot be "
            "told apart."
        )
    return (
        f"Steps of about {units.milliseconds(float(lengths.median()))} (guessed from recurring "
        f"tensors), in which collectives are carried out {units.percent(share)} of the time."
    )


def _late_rank(sums: TimelineSums, told: Mapping[str, Any]) -> str:
    known = str(told["rank_ticks"])
    if not sums.tells_every_rank(known):
        return f"No rank can be called late: {_TOLD_OF_RANKS[known]}."
    if not len(sums.waiting):
        return "No rank was last by more than a cycle of Horovod's loop."
    whole, span_ns = sums.waiting.length, sums.steady.length_ns
    if whole < SMALLEST_COST * span_ns:
        return "No rank is late by much: gaps before the last one are below 5 % of the time."
    rank = max(sorted(sums.waiting_for), key=lambda one: sums.waiting_for[one].length)
    share = sums.waiting_for[rank].length / whole
    if sums.num_waited < LEAST_EXECUTIONS or share < LEAST_EXPLAINED:
        return (
            f"Ranks wait {units.percent(whole / span_ns)} of the time for the last one, which is "
            "not always the same."
        )
    return (
        f"Rank {rank} is late: {units.percent(share, 0)} of the waiting for the last rank, which "
        f"is {units.percent(whole / span_ns)} of the time, is for it (as far as negotiation shows, "
        "which does not say what is hidden behind computation)."
    )
