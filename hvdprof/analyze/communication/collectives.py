"""Waiting, copies, transfer and bandwidth of each fused execution."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.launch_key import LAUNCH, LaunchKey
from hvdprof.model.schema import as_text
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
    table = as_text(executions, LAUNCH).merge(_of_tensors(uses, arrivals), on=_ID, how="left")
    start = table["start_ns"].astype("Int64")
    table["queue_ns"] += table["wait_ns"]
    table["hold_ns"] = start - table["first_negotiated_ns"]
    table["lag_ns"] = start - table["last_ready_ns"]
    table["algbw_gb_per_s"] = _algorithm_bandwidths(table)
    table["busbw_gb_per_s"] = bus_bandwidths(table, ranks_of)
    table["fill"] = _sizes(table) / _looked_up(table, threshold_of)
    return COLLECTIVES.frame(table[COLLECTIVES.column_names])


def bus_bandwidths(
    executions: pd.DataFrame, ranks_of: Mapping[LaunchKey, int]
) -> NDArray[np.float64]:
    """Busbw of each execution, GB/s; NaN where its payload or the number of ranks is unknown.

    Args:
        executions: Rows of EXECUTIONS.
        ranks_of: Number of ranks by launch where known.
    """
    bandwidths: NDArray[np.float64] = _algorithm_bandwidths(executions) * _factors(
        executions, ranks_of
    )
    return bandwidths


def _algorithm_bandwidths(executions: pd.DataFrame) -> NDArray[np.float64]:
    # Bytes per nanosecond are GB/s; a transfer of 0 microseconds has no bandwidth.
    transfer = executions["transfer_ns"].to_numpy(np.float64)
    known: NDArray[np.float64] = np.where(transfer > 0, transfer, np.nan)
    return _sizes(executions) / known


def _sizes(executions: pd.DataFrame) -> NDArray[np.float64]:
    sizes = executions["size_bytes"].astype("Float64")
    return np.asarray(sizes.to_numpy(dtype="float64", na_value=np.nan), dtype=np.float64)


def _of_tensors(uses: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """Per execution: longest negotiation, first negotiated tensor, last ready gradient."""
    names = [*LAUNCH, "tensor"]
    own = uses.loc[
        uses["fusion_id"] >= 0,
        [*_ID, "step", "tensor", "negotiation_start_ns", "negotiation_ns"],
    ]
    fused = as_text(own, names)
    fused["negotiated_ns"] = fused["negotiation_start_ns"] + fused["negotiation_ns"]
    ready = as_text(arrivals[[*LAUNCH, "step", "tensor", "last_ns"]], names)
    ready["last_ns"] = ready["last_ns"].astype("Int64")
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
    code, names = pd.factorize(table["collective"])
    factors = np.ones(len(table))
    for number, name in enumerate(names):
        chosen = code == number
        for size in np.unique(num_ranks[chosen]):
            factors[chosen & (num_ranks == size)] = bus_factor(str(name), float(size))
    return np.where(np.isnan(num_ranks), np.nan, factors)


def _looked_up(table: pd.DataFrame, known: Mapping[LaunchKey, int]) -> NDArray[np.float64]:
    launch = table.groupby(LAUNCH, sort=False, observed=True).ngroup().to_numpy()
    numbers, first = np.unique(launch, return_index=True)
    values = np.full(len(numbers), np.nan)
    for place, row in enumerate(table[LAUNCH].iloc[first].itertuples(index=False, name=None)):
        values[place] = known.get((str(row[0]), str(row[1])), np.nan)
    return values[launch]
