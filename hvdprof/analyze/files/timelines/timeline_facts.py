"""Facts and open questions of a standalone Horovod timeline, from its tables.

Tested in ``tests/cli/test_analyze_files.py``.
"""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.next_recording import SCALING_COMMAND, recording_command
from hvdprof.analyze.files.timelines.timeline_sums import TimelineSums
from hvdprof.analyze.files.timelines.timeline_verdict import steady_bandwidth
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import Fact, Unanswered

_WHY_NO_RANKS = {
    "none": "no tensor is used twice in it with its ranks named",
    "first use": "the response cache hides the ranks after the first use of a tensor",
    "some uses": "the response cache hides the ranks of some uses",
}
"""By ``rank_ticks`` of ``TIMELINES``."""


def timeline_facts(sums: TimelineSums, row: FrameRow) -> tuple[Fact, ...]:
    """Facts of one timeline; times in ns.

    Negotiation is reported as its median and 95th percentile over uses, never as a sum:
    tensors wait at the same time. An execution counts once, however many tensors it fused. Both
    leave out warm-up, which says nothing of a steady step; they are missing if that is all.

    Args:
        sums: Sums over the rows of one file.
        row: The row of TIMELINES of the same file.
    """
    size = None if is_missing(row["np"]) else int(row["np"])
    num = sums.steps.num_startup
    text = f"{num} steps, excluded from steady times"
    return (
        Fact("span_ns", "span", int(row["span_ns"]), "ns"),
        Fact("time_zero", "time 0 is", _time_zero(row)),
        Fact("writer", "written by", str(row["writer"]) or None),
        Fact("num_ranks", "ranks", size, text=_ranks(size, str(row["np_reason"]))),
        Fact("num_ranks_reason", "", str(row["np_reason"])),
        Fact("backends", "backend", str(row["backends"]) or None),
        Fact("num_tensors", "tensors", int(row["num_tensors"])),
        Fact("num_uses", "tensor uses", sums.num_uses),
        Fact("num_warmup_uses", "in warm-up", sums.num_warmup_uses),
        Fact("collectives", "executions", _by_collective(sums)),
        Fact("payload_bytes", "payload of known size", sums.payload_bytes, "bytes"),
        Fact("negotiation_median_ns", "negotiation, median", sums.waits.quantile(0.5), "ns"),
        Fact("negotiation_p95_ns", "negotiation, p95", sums.waits.quantile(0.95), "ns"),
        Fact("execution_median_ns", "execution, median", sums.lengths.quantile(0.5), "ns"),
        Fact("execution_p95_ns", "execution, p95", sums.lengths.quantile(0.95), "ns"),
        Fact(
            "executing_share",
            "executing (of file)",
            _executing_share(sums, int(row["span_ns"])),
            "ratio",
        ),
        Fact("num_startup_steps", "start-up" if num else "", num, text=text),
        Fact("negotiating_share", "negotiating (steady)", _steady_share(sums), "ratio"),
        # The verdict states it.
        Fact("executing_steady_share", "", _executing_steady_share(sums), "ratio"),
        *_waiting(sums, str(row["rank_ticks"])),
        *_payload(sums),
    )


def timeline_unanswered(sums: TimelineSums, row: FrameRow) -> tuple[Unanswered, ...]:
    """What a timeline leaves open: it is written by rank 0 alone, and holds no steps.

    Args:
        sums: Sums over the rows of one file.
        row: The row of TIMELINES of the same file.
    """
    # The number is that of the highest rank named: 1 says nothing of the others.
    size = None if is_missing(row["np"]) or row["np"] < 2 else int(row["np"])
    open_questions = [
        Unanswered(
            "how well the job scales (a timeline has no baseline and slows the job)",
            SCALING_COMMAND,
        ),
        Unanswered(
            "what the other ranks did, and how much communication was exposed (rank 0 alone "
            "writes a timeline)",
            recording_command(size),
        ),
    ]
    if not sums.names_every_rank(str(row["rank_ticks"])):
        open_questions.insert(
            0,
            Unanswered(
                f"which rank was last at every use ({_WHY_NO_RANKS[str(row['rank_ticks'])]})",
                "HOROVOD_CACHE_CAPACITY=0 with HOROVOD_TIMELINE=timeline.json (slower: not for "
                "timings)",
            ),
        )
    return tuple(open_questions)


def _ranks(size: int | None, reason: str) -> str:
    return f"unknown ({reason})" if size is None else f"{size} or more ({reason})"


def _time_zero(row: FrameRow) -> str:
    """What time 0 of the file is, with its wall clock where the file says it."""
    what = str(row["time_zero"]).removeprefix("since ")
    if is_missing(row["epoch_ns"]):
        return what
    return f"{what}, {pd.Timestamp(int(row['epoch_ns'])):%Y-%m-%d %H:%M:%S.%f} UTC"


def _by_collective(sums: TimelineSums) -> str | None:
    numbers = sums.by_collective.most_common()
    return ", ".join(f"{name} {number}" for name, number in numbers) or None


def _steady_share(sums: TimelineSums) -> float | None:
    span_ns = sums.steady_ns
    return sums.negotiating.length / span_ns if span_ns and len(sums.negotiating) else None


def _executing_steady_share(sums: TimelineSums) -> float | None:
    span_ns = sums.steady_ns
    return sums.executing_steady.length / span_ns if span_ns and sums.num_steady else None


def _waiting(sums: TimelineSums, rank_ticks: str) -> tuple[Fact, ...]:
    """Waits for the last rank, where the file names every rank at every use."""
    if sums.size == 1 or not sums.steady_ns or not sums.names_every_rank(rank_ticks):
        return ()
    share = sums.waiting.length / sums.steady_ns
    waiting = Fact("waiting_share", "waiting for the last rank (steady)", share, "ratio")
    steady = sums.steps.steady
    found = sums.last_ranks.of_rounds(steady if len(steady) else None)
    if not found:
        return (waiting,)
    top = found[0]
    text = f"{top.rank} ({units.percent(top.share)} of the waiting)"
    return waiting, Fact("most_waited_for", "rank waited for most", top.rank, text=text)


def _payload(sums: TimelineSums) -> tuple[Fact, ...]:
    """Payload of a steady step, and payload by time in collectives."""
    num_steps, rate = len(sums.steps.steady), steady_bandwidth(sums)
    if rate is None:
        return ()
    text = f"{units.byte_size(rate)}/s (payload divided by time in collectives)"
    facts = [Fact("payload_bytes_per_s", "payload bandwidth", rate, "bytes/s", text)]
    if num_steps and sums.steady_bytes:
        per_step = sums.steady_bytes / num_steps
        facts.insert(0, Fact("payload_bytes_per_step", "payload per step", per_step, "bytes"))
    return tuple(facts)


def _executing_share(sums: TimelineSums, span_ns: int) -> float | None:
    """Share of the span in which an execution ran; overlapping ones count once."""
    if not len(sums.executing) or span_ns <= 0:
        return None
    return sums.executing.length / span_ns
