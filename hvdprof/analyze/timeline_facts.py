"""What a lone Horovod timeline says, and what it cannot say, from its rows of EVENTS."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hvdprof.model.found import Fact, Unanswered


def timeline_facts(events: pd.DataFrame, told: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Facts of one timeline; times in ns.

    Negotiation is told by its median and 95th percentile over uses, never as a sum: tensors wait
    at the same time. An execution is counted once, whatever number of tensors it fused.

    Args:
        events: Rows of EVENTS of one file.
        told: The row of TIMELINES of the same file.
    """
    size = None if pd.isna(told["np"]) else int(told["np"])
    uses = events[events["phase"] == "operation"]
    executions = _executions(uses)
    ends = events["start_ns"] + events["dur_ns"].clip(lower=0)
    span_ns = int(ends.max() - events["start_ns"].min())
    waits = events.loc[(events["phase"] == "negotiation") & (events["dur_ns"] >= 0), "dur_ns"]
    lengths = executions["dur_ns"]
    return (
        Fact("span_ns", "span", span_ns, "ns"),
        Fact("writer", "written by", str(told["writer"]) or None),
        Fact("num_ranks", "ranks", size),
        Fact("num_ranks_reason", "because", str(told["np_reason"])),
        Fact("backends", "backend", str(told["backends"]) or None),
        Fact("num_tensors", "tensors", int(told["num_tensors"])),
        Fact("num_uses", "uses of a tensor", len(uses)),
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


def _executions(uses: pd.DataFrame) -> pd.DataFrame:
    ended = uses[uses["dur_ns"] >= 0]
    table = pd.DataFrame(
        {
            "fusion_id": ended["fusion_id"].to_numpy(),
            "collective": ended["collective"].astype(str).to_numpy(),
            "start_ns": ended["start_ns"].to_numpy(),
            "end_ns": (ended["start_ns"] + ended["dur_ns"]).to_numpy(),
        }
    )
    fused = table.groupby("fusion_id", sort=True).agg(
        collective=("collective", "first"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max")
    )
    fused["dur_ns"] = fused["end_ns"] - fused["start_ns"]
    return fused.reset_index()


def _by_collective(executions: pd.DataFrame) -> str | None:
    numbers = executions["collective"].value_counts(sort=True)
    return ", ".join(f"{name} {number}" for name, number in numbers.items()) or None


def _total(sizes: pd.Series) -> int | None:
    known = sizes.dropna()
    return int(known.sum()) if len(known) else None


def _quantile(values: pd.Series, share: float) -> float | None:
    return float(values.quantile(share)) if len(values) else None


def _covered(executions: pd.DataFrame, span_ns: int) -> float | None:
    """Share of the span in which an execution ran; overlapping ones count once."""
    if not len(executions) or span_ns <= 0:
        return None
    ordered = executions.sort_values("start_ns")
    starts = ordered["start_ns"].to_numpy()
    ends = np.maximum.accumulate(ordered["end_ns"].to_numpy())
    before = np.concatenate([starts[:1], ends[:-1]])
    return float((ends - np.maximum(starts, before)).clip(min=0).sum() / span_ns)
