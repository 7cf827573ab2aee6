"""The verdict on a standalone Horovod timeline: at most two sentences, and a caveat."""

from collections.abc import Hashable, Mapping, Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.timelines.straggler_sentence import (
    counted_steps,
    first_uses_sentence,
    straggler_sentence,
)
from hvdprof.analyze.files.timelines.timeline_sums import TimelineSums, size_of, sums_of
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_named

SHORTEST_HANG_NS = 1_000_000_000
LEAST_TIMES_USUAL = 5.0
"""A hang lasts so many times the 95th percentile of the negotiations of its file."""

_ENDED = "Pending negotiations are a hang, unless the job was ended while ranks waited."
_UNNAMED = "the file does not name the ranks that have not submitted them"
_MOST_GROUPS = 3
LEAST_EXECUTIONS = 5
_NEGOTIATION = (
    "In negotiation, ranks wait for the last rank to submit a tensor. Computation can hide these "
    "waits, and delays that it hides are not visible."
)


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
        who = f"{_who(pending, timed=True)} until the end of the file{_mutual(pending)}"
        return FileVerdict(f"{who[0].upper()}{who[1:]}.", _ENDED, Gravity.HANG)
    return FileVerdict(
        "",
        f"At the end of the file, {_who(pending)}: the recording ended there, or the job hangs.",
    )


def pending_fact(pending: pd.DataFrame) -> tuple[Fact, ...]:
    """The pending negotiations, those of the same ranks in one line; none without any."""
    if pending.empty:
        return ()
    lines = []
    for (submitted, missing), own in _by_ranks(pending, ["submitted_ranks", "missing_ranks"]):
        by = f", submitted by {ranks_named(_numbers(submitted))}" if submitted else ""
        without = f", not by {ranks_named(_numbers(missing))}" if missing else ""
        lines.append(f"{_tensors(len(own))} for {_longest(own)}{by}{without}")
    if (more := len(lines) - _MOST_GROUPS) > 0:
        lines[_MOST_GROUPS:] = [f"and of {units.counted(more, 'other group')} of ranks"]
    return (Fact("num_pending", "pending at the end", len(pending), text="\n".join(lines)),)


def _by_ranks(
    pending: pd.DataFrame, columns: Sequence[str]
) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The negotiations of each combination of ranks, the most first: they are separate facts."""
    groups = pending.groupby(list(columns), observed=True, sort=False)
    found = [(tuple(map(str, key)), own) for key, own in groups]
    return sorted(found, key=lambda one: -len(one[1]))


def _longest(pending: pd.DataFrame) -> str:
    longest_ns = int(pending["pending_ns"].max())
    is_long = longest_ns >= SHORTEST_HANG_NS
    return units.seconds(longest_ns / 1e9) if is_long else units.milliseconds(longest_ns)


def _who(pending: pd.DataFrame, *, timed: bool = False) -> str:
    """Which ranks have not submitted how many tensors, and how long each has waited if ``timed``.

    Where all have waited as long, that is said once.
    """
    groups = _by_ranks(pending, ["missing_ranks"])
    shown, rest = groups[:_MOST_GROUPS], groups[_MOST_GROUPS:]
    times = [f" for {_longest(own)}" * timed for _, own in groups]
    once = times[0] if len(set(times)) == 1 else ""
    clauses = []
    for ((missing,), own), time in zip(shown, times, strict=False):
        ranks, waited = _numbers(missing), "" if once else time
        have = f"{ranks_named(ranks)} {'has' if len(ranks) == 1 else 'have'} not submitted"
        unnamed = f"{_tensors(len(own))} pending{waited} ({_UNNAMED})"
        clauses.append(f"{have} {_tensors(len(own))}{waited}" if ranks else unnamed)
    if rest:
        clauses.append(f"other ranks {_tensors(sum(len(own) for _, own in rest))}")
    return " and ".join(filter(None, (", ".join(clauses[:-1]), clauses[-1]))) + once


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


def timeline_verdict(
    uses: pd.DataFrame,
    executions: pd.DataFrame,
    inferred: pd.DataFrame,
    pending: pd.DataFrame,
    row: Mapping[Hashable, object],
) -> FileVerdict:
    """A hang, the shares of the steady time, and the straggler, as far as the file shows them.

    Args:
        uses: Rows of TENSOR_USES of one file.
        executions: Rows of EXECUTIONS of the same file.
        inferred: Rows of INFERRED_STEPS of the same file.
        pending: Rows of PENDING_NEGOTIATIONS of the same file.
        row: The row of TIMELINES of the same file.
    """
    return verdict_of_sums(sums_of(uses, executions, inferred, size_of(row)), pending, row)


def verdict_of_sums(
    sums: TimelineSums, pending: pd.DataFrame, row: Mapping[Hashable, object]
) -> FileVerdict:
    """As ``timeline_verdict``, of sums over the rows of the file."""
    unreliable = _unreliable(row)
    if unreliable:
        return FileVerdict(f"No verdict: {unreliable}.", has_numbers=False)
    hang = pending_verdict(pending, sums.all_waits.quantile(0.95))
    # Five executions of no length at one moment last nothing altogether.
    if sums.num_steady < LEAST_EXECUTIONS or not sums.executed.length_ns:
        if hang.sentence:
            return hang
        number = "1 execution" if sums.num_steady == 1 else f"{sums.num_steady} executions"
        short = f"Too short to judge: {number} after warm-up, fewer than {LEAST_EXECUTIONS}."
        sentence = f"{short} {first_uses_sentence(sums)}".strip()
        return FileVerdict(sentence, hang.caveat, has_numbers=False)
    communication, straggler = _communication(sums), straggler_sentence(sums, row)
    if hang.sentence:
        straggler = FileVerdict("", straggler.caveat)
    parts = (hang, communication, straggler)
    return FileVerdict(
        " ".join(part.sentence for part in parts if part.sentence),
        " ".join(part.caveat for part in (hang, straggler, communication) if part.caveat),
        hang.gravity,
    )


def _unreliable(row: Mapping[Hashable, object]) -> str:
    """Why the times of a file are not those of one recording; empty where they are."""
    num_jumps, num_recordings = int(str(row["num_time_jumps"])), int(str(row["num_recordings"]))
    if num_jumps:
        places = "1 place" if num_jumps == 1 else f"{units.count(num_jumps)} places"
        return f"times fall back at {places} of the file, so its durations are unreliable"
    if num_recordings > 1:
        return f"the file holds {num_recordings} recordings, one behind the other"
    return ""


_UNEVEN = 0.2
"""Share of the median step by which the mean differs that is said."""


def _communication(sums: TimelineSums) -> FileVerdict:
    span_ns, step_ns = sums.steady_ns, sums.steps.step_ns
    negotiation = sums.negotiating.length / span_ns
    executing = sums.executing_steady.length / span_ns
    clauses = [f"collectives run for {units.percent(executing)} of the time{_bandwidth(sums)}"]
    caveats = []
    if len(sums.negotiating) and sums.size != 1:
        both = ", partly at the same time" if negotiation + executing > 1 else ", which can overlap"
        is_small = min(negotiation, executing) < SMALLEST_COST
        clauses.append(f"negotiation for {units.percent(negotiation)}{'' if is_small else both}")
        caveats += [_NEGOTIATION] if negotiation >= SMALLEST_COST else []
    if step_ns is None:
        when = "After warm-up"
        caveats.append("Step boundaries cannot be inferred.")
    else:
        number = len(sums.steps.steady)
        mean_ns = span_ns / number
        # A wait per step is a mean: without it, one could be longer than the step.
        is_uneven = abs(mean_ns - step_ns) > _UNEVEN * step_ns
        mean = f" (mean {units.milliseconds(mean_ns)})" if is_uneven else ""
        when = f"In {counted_steps(number)} of about {units.milliseconds(step_ns)}{mean}"
        caveats.append("Step boundaries are inferred from recurring tensors.")
        if sums.steps.pause_ns:
            pause = units.seconds(sums.steps.pause_ns / 1e9)
            caveats.append(f"Pauses between steps ({pause} in all) are excluded.")
    return FileVerdict(f"{when}, {' and '.join(clauses)}.", " ".join(caveats))


def _bandwidth(sums: TimelineSums) -> str:
    rate = steady_bandwidth(sums)
    return "" if rate is None else f" ({units.byte_size(rate)}/s)"


def steady_bandwidth(sums: TimelineSums) -> float | None:
    """Payload by time in collectives, in bytes/s; ``None`` where a size is unknown."""
    time_ns = sums.executing_steady.length
    return sums.steady_bytes / time_ns * 1e9 if sums.steady_bytes and time_ns else None
