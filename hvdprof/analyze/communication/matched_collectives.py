"""Waiting and transfer of every collective that several ranks recorded."""

import numpy as np
import pandas as pd

from hvdprof.analyze.communication.collectives import bus_factor
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.rank_collective_tables import (
    MATCHED_COLLECTIVES,
    NO_MATCH,
)

_KEY = [*LAUNCH, "match_id"]
_FIRST = ("step", "group", "collective", "name", "size_bytes", "group_size")
_TEXT = ("group", "collective", "name")


def matched_collectives(calls: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """MATCHED_COLLECTIVES of the calls of several ranks.

    Transfer is the shortest call of any rank, which is that of the rank that arrives last: a
    length on one clock, so that no clock error is in it.

    Args:
        calls: RANK_COLLECTIVES.
        clocks: CLOCKS, whose middle corrects the times of a rank; ranks without a row keep theirs.
    """
    matched = calls[(calls["match_id"] != NO_MATCH).to_numpy()]
    if matched.empty:
        return MATCHED_COLLECTIVES.empty()
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
            "decided": last["arrival"] - second["arrival"] > last["u_ns"] + second["u_ns"],
        }
    )
    found["wait_sum_ns"] = found["last_ns"] * number - groups["arrival"].sum()
    is_whole = (found["num_ranks"] == found["group_size"]).fillna(value=False)
    shortest = groups["length"].min().where(groups["length"].count() == number)
    found["transfer_ns"] = shortest.where(is_whole.astype(bool)).astype("Int64")
    found["busbw_gb_per_s"] = _bus_bandwidth(found)
    return MATCHED_COLLECTIVES.frame(found.reset_index()[MATCHED_COLLECTIVES.column_names])


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
