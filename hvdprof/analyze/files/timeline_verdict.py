"""The verdict on a standalone Horovod timeline: at most two sentences, and a caveat."""

from collections.abc import Hashable, Mapping

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.timeline_sums import TimelineSums
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.model.standalone_files import FileVerdict

LEAST_EXPLAINED = 0.8
LEAST_EXECUTIONS = 5
LEAST_CONFIDENCE = 0.5
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

_HIDDEN = "Negotiation does not show delays that computation hides."


def timeline_verdict(
    uses: pd.DataFrame,
    executions: pd.DataFrame,
    inferred: pd.DataFrame,
    row: Mapping[Hashable, object],
) -> FileVerdict:
    """The share of a step that communication takes, and the straggler if the file shows one.

    A straggler is named only where the file names every tensor's ranks, the gaps before the last
    rank make up 5 % of the time or more, and that rank causes 80 % of them.

    Args:
        uses: Rows of TENSOR_USES of one file.
        executions: Rows of EXECUTIONS of the same file.
        inferred: Rows of INFERRED_STEPS of the same file.
        row: The row of TIMELINES of the same file.
    """
    sums = TimelineSums()
    sums.add_uses(uses)
    sums.add_executions(executions)
    return verdict_of_sums(sums, inferred, row)


def verdict_of_sums(
    sums: TimelineSums, inferred: pd.DataFrame, row: Mapping[Hashable, object]
) -> FileVerdict:
    """As ``timeline_verdict``, of sums over the rows of the file."""
    # Five executions of no length at one moment last nothing altogether.
    if sums.num_steady < LEAST_EXECUTIONS or not sums.steady.length_ns:
        return FileVerdict(
            f"Too short to judge: {units.count(sums.num_steady)} executions after warm-up, fewer "
            f"than {LEAST_EXECUTIONS}."
        )
    communication, straggler = _communication(sums, inferred), _straggler(sums, inferred, row)
    return FileVerdict(
        " ".join(text for text in (communication.sentence, straggler.sentence) if text),
        " ".join(text for text in (straggler.caveat, communication.caveat) if text),
    )


def _communication(sums: TimelineSums, inferred: pd.DataFrame) -> FileVerdict:
    step_ns = _step_ns(inferred)
    share = units.percent(sums.executing_steady.length / sums.steady.length_ns)
    if step_ns is None:
        return FileVerdict(
            f"After warm-up, collectives run for {share} of the time.",
            "Step boundaries cannot be inferred.",
        )
    return FileVerdict(
        f"After warm-up, collectives run for {share} of the time, in steps of about "
        f"{units.milliseconds(step_ns)}.",
        "Step boundaries are inferred from recurring tensors.",
    )


def _step_ns(inferred: pd.DataFrame) -> float | None:
    """Median length of the inferred steps; None where they are not certain enough."""
    lengths = inferred.loc[inferred["complete"], "dur_ns"].dropna()
    if lengths.empty or float(inferred["confidence"].iloc[0]) < LEAST_CONFIDENCE:
        return None
    return float(lengths.median())


def _long_negotiation(sums: TimelineSums, inferred: pd.DataFrame) -> str:
    step_ns, median_ns = _step_ns(inferred), sums.waits.quantile(0.5)
    if step_ns is None or median_ns is None or median_ns < LONG_NEGOTIATION * step_ns:
        return ""
    return (
        f"Tensors wait for a straggler (negotiation, median {units.milliseconds(median_ns)} of a "
        f"{units.milliseconds(step_ns)} step); the file cannot name the rank."
    )


def _straggler(
    sums: TimelineSums, inferred: pd.DataFrame, row: Mapping[Hashable, object]
) -> FileVerdict:
    ticks = str(row["rank_ticks"])
    if not sums.names_every_rank(ticks):
        waiting = _long_negotiation(sums, inferred)
        return FileVerdict(waiting, f"No straggler can be named: {_WHY_NO_STRAGGLER[ticks]}.")
    if not len(sums.waiting):
        return FileVerdict("No straggler: no rank is last by more than a cycle of Horovod.")
    whole, span_ns = sums.waiting.length, sums.steady.length_ns
    if whole < SMALLEST_COST * span_ns:
        return FileVerdict("No straggler: waits for the last rank are below 5 % of the time.")
    waiting = units.percent(whole / span_ns)
    rank = max(sorted(sums.waiting_for), key=lambda one: sums.waiting_for[one].length)
    share = sums.waiting_for[rank].length / whole
    if sums.num_waited < LEAST_EXECUTIONS or share < LEAST_EXPLAINED:
        return FileVerdict(
            f"No persistent straggler: ranks wait {waiting} of the time for the last rank, which "
            "changes.",
            _HIDDEN,
        )
    return FileVerdict(
        f"Rank {rank} is a straggler: it causes {units.percent(share, 0)} of the wait for the last "
        f"rank, which is {waiting} of the time.",
        _HIDDEN,
    )
