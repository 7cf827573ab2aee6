"""Waiting, transfer and bandwidth of collectives, as one rank or as several ranks recorded them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.arrays import group_codes
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.schema import as_text
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_BANDWIDTHS,
    MATCHED_COLLECTIVES,
    NO_MATCH,
    UNBOUNDED_CLOCK_NS,
)

_KEY = [*LAUNCH, "match_id"]
_FIRST = ("step", "group", "collective", "name", "size_bytes", "group_size")
_TEXT = ("group", "collective", "name")
RELEASES_TOGETHER = ("ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BARRIER")
"""No rank leaves these before the last one has arrived: the others wait for it."""

_CLASS = [*LAUNCH, "collective", "num_ranks", "class"]

DEFAULT_FUSION_THRESHOLD = 128 * 2**20
"""Bytes of the fusion buffer where HOROVOD_FUSION_THRESHOLD is not set (Horovod 0.28.1)."""

_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"
_AUTOTUNE = "HOROVOD_AUTOTUNE"
_ID = [*LAUNCH, "fusion_id"]


def matched_collectives(calls: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """MATCHED_COLLECTIVES of the calls of several ranks.

    Transfer is the shortest call of any rank, which is that of the rank that arrives last: a
    length on one clock, so that no clock error is in it. Where nothing bounds a clock, arrivals are
    the lengths of the calls before their common end.

    Args:
        calls: RANK_COLLECTIVES.
        clocks: CLOCKS, whose middle corrects the times of a rank; ranks without a row keep theirs.
    """
    return MATCHED_COLLECTIVES.frame(matched_gaps(calls, clocks)[MATCHED_COLLECTIVES.column_names])


def matched_gaps(calls: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """As ``matched_collectives``, with the lowest rank of each and ``doubt_ns``.

    ``doubt_ns`` is the sum of the clock errors of the last two ranks.
    """
    matched = calls[(calls["match_id"] != NO_MATCH).to_numpy()]
    if matched.empty:
        return MATCHED_COLLECTIVES.empty().assign(doubt_ns=0.0, lowest_rank=0)
    table = _on_corrected_clocks(matched, clocks).sort_values([*_KEY, "arrival"], kind="stable")
    groups = table.groupby(_KEY, sort=False)
    last, number = groups.tail(1).set_index(_KEY), groups.size()
    second = groups.nth(-2).set_index(_KEY)
    found = pd.DataFrame(
        {
            **{name: last[name] for name in _FIRST},
            "num_ranks": number,
            "first_ns": groups["arrival"].first(),
            "second_last_ns": second["arrival"],
            "last_ns": last["arrival"],
            "last_rank": last["rank"],
            "lowest_rank": groups["rank"].min(),
            "doubt_ns": last["u_ns"] + second["u_ns"],
        }
    )
    found["decided"] = found["last_ns"] - found["second_last_ns"] > found["doubt_ns"]
    found["wait_sum_ns"] = found["last_ns"] * number - groups["arrival"].sum()
    is_whole = (found["num_ranks"] == found["group_size"]).fillna(value=False)
    shortest = groups["length"].min().where(groups["length"].count() == number)
    found["transfer_ns"] = shortest.where(is_whole.astype(bool)).astype("Int64")
    found["busbw_gb_per_s"] = _bus_bandwidth(found)
    return found.reset_index()


def _on_corrected_clocks(calls: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    columns = ["rank", "match_id", *_FIRST, "arrival_ns", "end_ns", "clock_error_ns"]
    table = calls[[*LAUNCH, *columns]].astype(dict.fromkeys((*LAUNCH, *_TEXT), str))
    middle = (clocks["offset_low_ns"] + clocks["offset_high_ns"]) / 2
    known = clocks[[*LAUNCH, "rank", "u_ns"]].assign(shift=middle)
    known = known.astype(dict.fromkeys(LAUNCH, str) | {"rank": table["rank"].dtype})
    table = table.merge(known, on=[*LAUNCH, "rank"], how="left")
    shift = np.rint(table["shift"].fillna(0.0).to_numpy()).astype(np.int64)
    table["arrival"] = table["arrival_ns"].to_numpy() + shift
    table["length"] = table["end_ns"] - table["arrival_ns"]
    table["u_ns"] = table["u_ns"].fillna(table["clock_error_ns"].astype("float64"))
    return _from_their_end(table)


def _from_their_end(table: pd.DataFrame) -> pd.DataFrame:
    """The calls without a common clock that end together, each on the clock of its first rank."""
    is_unbounded = (table["u_ns"] >= UNBOUNDED_CLOCK_NS).any()
    if not is_unbounded or table["length"].isna().all():
        return table
    groups = table.sort_values("rank").groupby(_KEY, sort=False)
    is_free = groups["u_ns"].transform("max") >= UNBOUNDED_CLOCK_NS
    is_free &= groups["length"].transform("count") == groups["rank"].transform("size")
    is_free &= table["collective"].isin(RELEASES_TOGETHER)
    if is_free.any():
        chosen = is_free.reindex(table.index)
        from_end = groups["end_ns"].transform("first") - table["length"]
        table["arrival"] = table["arrival"].where(~chosen, from_end.astype("Int64")).astype("int64")
        table["u_ns"] = table["u_ns"].where(~chosen, 0.0)
    return table


def _bus_bandwidth(found: pd.DataFrame) -> np.ndarray:
    # Bytes per nanosecond are GB/s.
    size, transfer = (
        found[name].astype("Float64").to_numpy(dtype="float64", na_value=np.nan)
        for name in ("size_bytes", "transfer_ns")
    )
    factor = np.array(
        [
            bus_factor(name, float(number))
            for name, number in zip(found["collective"], found["num_ranks"], strict=True)
        ]
    )
    return np.where(transfer > 0, size / np.where(transfer > 0, transfer, np.nan) * factor, np.nan)


def collective_bandwidths(matched: pd.DataFrame) -> pd.DataFrame:
    """COLLECTIVE_BANDWIDTHS, those that transfer longest first within a launch.

    Args:
        matched: MATCHED_COLLECTIVES.
    """
    timed = matched[(matched["busbw_gb_per_s"].notna() & (matched["size_bytes"] > 0)).to_numpy()]
    if timed.empty:
        return COLLECTIVE_BANDWIDTHS.empty()
    sizes = timed["size_bytes"].to_numpy(np.int64)
    rows = timed.assign(
        **{name: timed[name].astype(str) for name in (*LAUNCH, "collective")},
        transfer=timed["transfer_ns"].astype("float64"),
        wait=timed["wait_sum_ns"] / timed["num_ranks"],
        size=sizes,
        # Exact beyond the digits of a logarithm: 2**29 is in the class that begins with it.
        **{"class": [int(size).bit_length() for size in sizes]},
    )
    found = rows.groupby(_CLASS, sort=False).agg(
        size_low_bytes=("size", "min"),
        size_high_bytes=("size", "max"),
        number=("size", "size"),
        wait_mean_ns=("wait", "mean"),
        transfer_sum_ns=("transfer", "sum"),
        transfer_median_ns=("transfer", "median"),
        busbw_median_gb_per_s=("busbw_gb_per_s", "median"),
    )
    launch = found.groupby(LAUNCH, sort=False).ngroup().to_numpy()
    order = np.lexsort((-found["transfer_sum_ns"].to_numpy(), launch))
    return COLLECTIVE_BANDWIDTHS.frame(
        found.iloc[order].reset_index()[COLLECTIVE_BANDWIDTHS.column_names]
    )


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
    codes, first = group_codes(joined, _ID)
    groups = joined[["negotiation_ns", "negotiated_ns", "last_ns"]].groupby(codes)
    found = joined[_ID].iloc[first].reset_index(drop=True)
    largest = groups.max()
    return found.assign(
        negotiation_ns=largest["negotiation_ns"],
        first_negotiated_ns=groups["negotiated_ns"].min(),
        last_ready_ns=largest["last_ns"],
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
    values = np.full(len(table), np.nan)
    for key, rows in rows_by_launch(table):
        values[rows] = known.get(key, np.nan)
    return values
