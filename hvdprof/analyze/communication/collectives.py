"""Waiting, copies, transfer and bandwidth of each fused execution."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.launch_key import LAUNCH, LaunchKey
from hvdprof.model.tables.collective_tables import COLLECTIVES

DEFAULT_FUSION_THRESHOLD = 128 * 2**20
"""Bytes of the fusion buffer where HOROVOD_FUSION_THRESHOLD is not set (Horovod 0.28.1)."""

_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"
_AUTOTUNE = "HOROVOD_AUTOTUNE"
_ID = [*LAUNCH, "fusion_id"]


def bus_factor(collective: str, num_ranks: float) -> float:
    """Busbw divided by algbw, as in PERFORMANCE.md of nccl-tests."""
    if collective in ("ALLREDUCE", "ADASUM"):
        return 2 * (num_ranks - 1) / num_ranks
    if collective in ("ALLGATHER", "REDUCESCATTER", "ALLTOALL"):
        return (num_ranks - 1) / num_ranks
    return 1.0


def fusion_threshold(environment: Mapping[str, str]) -> int | None:
    """Bytes of the fusion buffer from the environment of a launch.

    None where it is unknown: autotuning changes it, a value is no number, or fusion is off (0).
    """
    if environment.get(_AUTOTUNE, "0").strip() not in ("", "0"):
        return None
    text = environment.get(_THRESHOLD, str(DEFAULT_FUSION_THRESHOLD)).strip()
    return int(text) or None if text.isdecimal() else None


def collectives(
    executions: pd.DataFrame,
    uses: pd.DataFrame,
    arrivals: pd.DataFrame,
    ranks_of: Mapping[LaunchKey, int],
    threshold_of: Mapping[LaunchKey, int],
) -> pd.DataFrame:
    """COLLECTIVES, one row per execution.

    Args:
        executions: EXECUTIONS.
        uses: TENSOR_USES, for the negotiation of each tensor.
        arrivals: COLLECTIVE_ARRIVALS; empty for timelines without recorder files.
        ranks_of: Number of ranks by launch where known.
        threshold_of: Bytes of the fusion buffer by launch where known.
    """
    if executions.empty:
        return COLLECTIVES.empty()
    names = dict.fromkeys(LAUNCH, str)
    table = executions.astype(names).merge(_of_tensors(uses, arrivals), on=_ID, how="left")
    start = table["start_ns"].astype("Int64")
    table["queue_ns"] += table["wait_ns"]
    table["hold_ns"] = start - table["first_negotiated_ns"]
    table["lag_ns"] = start - table["last_ready_ns"]
    # Bytes per nanosecond are GB/s; a transfer of 0 microseconds has no bandwidth.
    transfer = table["transfer_ns"].where(table["transfer_ns"] > 0).astype("float64")
    size = table["size_bytes"].astype("Float64").to_numpy(dtype="float64", na_value=np.nan)
    table["algbw_gb_per_s"] = size / transfer
    table["busbw_gb_per_s"] = table["algbw_gb_per_s"] * _factors(table, ranks_of)
    table["fill"] = size / _looked_up(table, threshold_of)
    return COLLECTIVES.frame(table[COLLECTIVES.column_names])


def _of_tensors(uses: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """Per execution: longest negotiation, first negotiated tensor, last ready gradient."""
    names = dict.fromkeys((*LAUNCH, "tensor"), str)
    fused = uses.loc[
        uses["fusion_id"] >= 0,
        [*_ID, "step", "tensor", "negotiation_start_ns", "negotiation_ns"],
    ].astype(names)
    fused["negotiated_ns"] = fused["negotiation_start_ns"] + fused["negotiation_ns"]
    ready = arrivals[[*LAUNCH, "step", "tensor", "last_ns"]].astype(names | {"last_ns": "Int64"})
    joined = fused.merge(ready, on=[*LAUNCH, "step", "tensor"], how="left")
    return (
        joined.groupby(_ID, sort=False)
        .agg(
            negotiation_ns=("negotiation_ns", "max"),
            first_negotiated_ns=("negotiated_ns", "min"),
            last_ready_ns=("last_ns", "max"),
        )
        .reset_index()
    )


def _factors(table: pd.DataFrame, ranks_of: Mapping[LaunchKey, int]) -> NDArray[np.float64]:
    num_ranks = _looked_up(table, ranks_of)
    names = table["collective"].astype(str).to_numpy()
    factors = np.ones(len(table))
    for name in np.unique(names):
        chosen = names == name
        factors[chosen] = [bus_factor(str(name), size) for size in num_ranks[chosen]]
    return np.where(np.isnan(num_ranks), np.nan, factors)


def _looked_up(table: pd.DataFrame, known: Mapping[LaunchKey, int]) -> NDArray[np.float64]:
    keys = zip(table["pass_id"], table["segment"], strict=True)
    return np.array([known.get(key, np.nan) for key in keys], dtype=np.float64)
