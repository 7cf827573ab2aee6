"""What a lone Horovod timeline says, and what it cannot say, from its tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hvdprof.analyze.intervals import union
from hvdprof.model.found import Fact, Unanswered


def timeline_facts(
    events: pd.DataFrame,
    uses: pd.DataFrame,
    executions: pd.DataFrame,
    told: Mapping[str, Any],
) -> tuple[Fact, ...]:
    """Facts of one timeline; times in ns.

    Negotiation is told by its median and 95th percentile over uses, never as a sum: tensors wait
    at the same time. An execution is counted once, whatever number of tensors it fused. Both leave
    out warm-up, which says nothing of a steady step; they are missing where there is nothing else.

    Args:
        events: Rows of EVENTS of one file.
        uses: Rows of TENSOR_USES of the same file.
        executions: Rows of EXECUTIONS of the same file.
        told: The row of TIMELINES of the same file.
    """
    size = None if pd.isna(told["np"]) else int(told["np"])
    ends = events["start_ns"] + events["dur_ns"].clip(lower=0)
    span_ns = int(ends.max() - events["start_ns"].min())
    waits = uses.loc[~uses["warmup"], "negotiation_ns"].dropna()
    lengths = executions.loc[~executions["warmup"], "dur_ns"].dropna()
    return (
        Fact("span_ns", "span", span_ns, "ns"),
        Fact("time_zero", "time 0 is", _time_zero(told)),
        Fact("writer", "written by", str(told["writer"]) or None),
        Fact("num_ranks", "ranks", size),
        Fact("num_ranks_reason", "because", str(told["np_reason"])),
        Fact("backends", "backend", str(told["backends"]) or None),
        Fact("num_tensors", "tensors", int(told["num_tensors"])),
        Fact("num_uses", "uses of a tensor", len(uses)),
        Fact("num_warmup_uses", "of them warm-up", int(uses["warmup"].sum())),
        Fact("collectives", "executions", _by_collective(executions)),
        Fact("payload_bytes", "payload known", _total(uses["size_bytes"]), "bytes"),
        Fact("negotiation_median_ns", "negotiation, median", _quantile(waits, 0.5), "ns"),
        Fact("negotiation_p95_ns", "negotiation, p95", _quantile(waits, 0.95), "ns"),
        Fact("execution_median_ns", "execution, median", _quantile(lengths, 0.5), "ns"),
        Fact("execution_p95_ns", "execution, p95", _quantile(lengths, 0.95), "ns"),
        Fact("executing_share", "share of the span", _covered(executions, span_ns), "ratio"),
    )


def timeline_unanswered(told: Mapping[str, Any]) -> tuple[Unanswered, ...]:
    """What a timeline leaves open: it is written by rank 0 alone, and holds no steps."""
    open_questions = [
        Unanswered(
            "how well the job scales: a timeline has no baseline and slows the job down",
            "hvdprof bench --np 1,2,4",
        ),
        Unanswered(
            "what the other ranks did, and how much communication was exposed: rank 0 alone "
            "writes a timeline",
            "add hvdprof.collect to the script (docs/recorder.md)",
        ),
    ]
    if told["rank_ticks"] != "every use":
        open_questions.insert(
            0,
            Unanswered(
                "which rank was late at every use: the response cache hides the ranks after the "
                "first use of a tensor",
                "HOROVOD_CACHE_CAPACITY=0 with HOROVOD_TIMELINE=timeline.json (slower: not for "
                "timings)",
            ),
        )
    return tuple(open_questions)


def _time_zero(told: Mapping[str, Any]) -> str:
    """What time 0 of the file is, with its wall clock where the file says it."""
    what = str(told["time_zero"]).removeprefix("since ")
    if pd.isna(told["epoch_ns"]):
        return what
    return f"{what}, {pd.Timestamp(int(told['epoch_ns'])):%Y-%m-%d %H:%M:%S.%f} UTC"


def _by_collective(executions: pd.DataFrame) -> str | None:
    numbers = executions["collective"].astype(str).value_counts(sort=True)
    return ", ".join(f"{name} {number}" for name, number in numbers.items()) or None


def _total(sizes: pd.Series) -> int | None:
    known = sizes.dropna()
    return int(known.sum()) if len(known) else None


def _quantile(values: pd.Series, share: float) -> float | None:
    return float(values.quantile(share)) if len(values) else None


def _covered(executions: pd.DataFrame, span_ns: int) -> float | None:
    """Share of the span in which an execution ran; overlapping ones count once."""
    ended = executions.dropna(subset="dur_ns")
    if ended.empty or span_ns <= 0:
        return None
    starts = ended["start_ns"].to_numpy(dtype=np.int64)
    busy = union(starts, starts + ended["dur_ns"].to_numpy(dtype=np.int64))
    return busy.length / span_ns
