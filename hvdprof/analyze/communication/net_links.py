"""Latency and bandwidth between hosts, from timed messages."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from hvdprof.analyze.communication.link_fit import link_fit
from hvdprof.analyze.stats.uncertainty import median_of
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.tables.net_tables import NET_LINKS

_LINK = ["method", "from_host", "to_host", "np"]


def net_links(transfers: pd.DataFrame) -> pd.DataFrame:
    """NET_LINKS, one row per method and pair of hosts.

    The fit is that of ``link_fit``: Theil and Sen's slope over the medians of the sizes. The
    bandwidth is its inverse. The latency is the median of the smallest messages, with the interval
    of order statistics.

    Args:
        transfers: NET_TRANSFERS.
    """
    links = [
        (key, members)
        for key, members in transfers.groupby(_LINK, observed=True, sort=False)
        if isinstance(key, tuple)
    ]
    if not links:
        return NET_LINKS.empty()
    numbered = [
        members.assign(collective=str(number), pass_id=str(members["np"].iloc[0]))
        for number, (_, members) in enumerate(links)
    ]
    messages = pd.concat(numbered, ignore_index=True).assign(segment="", warmup=False)
    sizes = {(str(number), ""): int(number) for number in messages["np"].unique()}
    fits = link_fit(messages.rename(columns={"time_ns": "transfer_ns"}), sizes)
    by_number = {row["collective"]: row for row in fits.to_dict("records")}
    return NET_LINKS.frame(
        [
            _row(dict(zip(_LINK, key, strict=True)), members, by_number[str(number)])
            for number, (key, members) in enumerate(links)
        ]
    )


def _row(link: Mapping[str, object], members: pd.DataFrame, fit: FrameRow) -> dict[str, object]:
    smallest = members.loc[members["size_bytes"] == members["size_bytes"].min(), "time_ns"]
    latency = median_of(smallest.to_numpy(dtype=np.float64))
    numbers = ("alpha", "beta", "bandwidth")
    taken = [name for name in NET_LINKS.column_names if name.startswith(numbers)]
    return {
        **link,
        "num_messages": fit["num_executions"],
        **{name: fit[name] for name in ("num_sizes", "smallest_bytes", "largest_bytes")},
        "latency_ns": latency.value,
        "latency_low_ns": latency.low,
        "latency_high_ns": latency.high,
        **{name: fit[name] for name in taken},
        "reason": fit["reason"],
    }
