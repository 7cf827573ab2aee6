"""What a lone Horovod timeline comes down to, in a sentence or two."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.finding import SMALLEST_COST
from hvdprof.analyze.intervals import union

LEAST_EXPLAINED = 0.8
LEAST_EXECUTIONS = 5
LEAST_CONFIDENCE = 0.5


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
    steady = executions[~executions["warmup"] & executions["dur_ns"].notna()]
    if len(steady) < LEAST_EXECUTIONS:
        return (
            f"Too short for an answer: {units.count(len(steady))} executions after warm-up, fewer "
            f"than {LEAST_EXECUTIONS}."
        )
    parts = [_share_of_steps(steady, inferred)]
    parts.append(_late_rank(uses, steady, told))
    parts.append("How well the job scales is not in this file: hvdprof bench tells.")
    return " ".join(part for part in parts if part)


def _share_of_steps(steady: pd.DataFrame, inferred: pd.DataFrame) -> str:
    start = steady["start_ns"].to_numpy(dtype=np.int64)
    end = start + steady["dur_ns"].to_numpy(dtype=np.int64)
    lengths = inferred.loc[inferred["complete"], "dur_ns"].dropna()
    busy = union(start, end)
    share = busy.length / int(end.max() - start.min())
    if lengths.empty or float(inferred["confidence"].iloc[0]) < LEAST_CONFIDENCE:
        return (
            f"Collectives are carried out in {units.percent(share)} of the time; steps cannot be "
            "told apart."
        )
    return (
        f"Steps of about {units.milliseconds(float(lengths.median()))} (guessed from recurring "
        f"tensors), in which collectives are carried out {units.percent(share)} of the time."
    )


def _late_rank(uses: pd.DataFrame, steady: pd.DataFrame, told: Mapping[str, Any]) -> str:
    if told["rank_ticks"] != "every use":
        return "No rank can be called late: the file names the ranks of first uses only."
    counted = uses[~uses["warmup"] & (uses["fusion_id"] >= 0) & uses["last_rank"].notna()]
    if counted.empty:
        return "No rank was last by more than a cycle of Horovod's loop."
    end = (counted["negotiation_start_ns"] + counted["negotiation_ns"]).to_numpy(dtype=np.int64)
    start = end - counted["last_after_ns"].to_numpy(dtype=np.int64)
    ranks = counted["last_rank"].to_numpy(dtype=np.int64)
    # Tensors wait at the same time: unions, never sums.
    whole = union(start, end).length
    waited = {
        int(rank): union(start[ranks == rank], end[ranks == rank]).length
        for rank in np.unique(ranks)
    }
    span = int((steady["start_ns"] + steady["dur_ns"]).max() - steady["start_ns"].min())
    if whole < SMALLEST_COST * span:
        return "No rank is late by much: gaps before the last one are below 5 % of the time."
    rank = max(waited, key=lambda one: waited[one])
    share = waited[rank] / whole
    if counted["fusion_id"].nunique() < LEAST_EXECUTIONS or share < LEAST_EXPLAINED:
        return (
            f"Ranks wait {units.percent(whole / span)} of the time for the last one, which is not "
            "always the same."
        )
    return (
        f"Rank {rank} is late: {units.percent(share, 0)} of the waiting for the last rank, which "
        f"is {units.percent(whole / span)} of the time, is for it (as far as negotiation shows, "
        "which does not say what is hidden behind computation)."
    )
