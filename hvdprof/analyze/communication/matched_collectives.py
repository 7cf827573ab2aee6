"""Waiting, transfer and bus bandwidth of the collectives that several ranks recorded."""

import numpy as np
import pandas as pd

from hvdprof.analyze.communication.collectives import bus_factor
from hvdprof.model.launch_key import LAUNCH
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
