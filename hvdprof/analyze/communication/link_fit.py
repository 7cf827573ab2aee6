"""Latency and bandwidth of the network, fitted to Horovod's own transfers."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.theil_sen import theil_sen
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN
from hvdprof.model.launch_key import LAUNCH, LaunchKey
from hvdprof.model.schema import text_of
from hvdprof.model.tables.collective_tables import LINK_FIT

LEAST_SIZES = 4
LEAST_SPAN = 8.0


def link_fit(collectives: pd.DataFrame, ranks_of: Mapping[LaunchKey, int]) -> pd.DataFrame:
    """LINK_FIT over the executions of all launches with the same number of ranks.

    Theil and Sen's slope over the median transfer time of every payload (Sen, JASA 63, 1968), and
    the median of its residuals as the time of an empty message: both are robust against a few
    stalled transfers. No fit below four payloads, or for payloads that differ by less than a
    factor of eight.

    Args:
        collectives: COLLECTIVES.
        ranks_of: Number of ranks by launch; launches of unknown size are left out.
    """
    if collectives.empty:
        return LINK_FIT.empty()
    names = zip(*(text_of(collectives[name]) for name in LAUNCH), strict=True)
    table = collectives.assign(np=[ranks_of.get(key, 0) for key in names])
    useful = table[
        (table["np"] > 1)
        & ~table["warmup"]
        & table["size_bytes"].notna()
        & (table["transfer_ns"] > 0)
    ].astype({"size_bytes": "float64", "transfer_ns": "float64", "collective": str})
    rows = [
        _row(int(str(size)), str(collective), members)
        for (size, collective), members in useful.groupby(["np", "collective"])
    ]
    return LINK_FIT.frame(rows)


def _row(num_ranks: int, collective: str, members: pd.DataFrame) -> dict[str, object]:
    medians = members.groupby("size_bytes")["transfer_ns"].median()
    sizes = medians.index.to_numpy(dtype=np.float64)
    row = {
        "np": num_ranks,
        "collective": collective,
        "num_executions": len(members),
        "num_sizes": len(sizes),
        "smallest_bytes": int(sizes.min()),
        "largest_bytes": int(sizes.max()),
    }
    if len(sizes) < LEAST_SIZES:
        return row | _no_fit(f"only {len(sizes)} different payloads")
    if sizes.max() < LEAST_SPAN * sizes.min():
        return row | _no_fit("payloads differ by less than a factor of eight")
    return row | _fit(sizes, medians.to_numpy(dtype=np.float64))


def _fit(sizes: NDArray[np.float64], times: NDArray[np.float64]) -> dict[str, object]:
    found = theil_sen(sizes, times, CONFIDENCE)
    slope, low, high = found.value, found.low, found.high

    def empty_message(beta: float) -> float:
        return float(np.median(times - beta * sizes))

    return {
        "alpha_ns": empty_message(slope),
        "alpha_low_ns": empty_message(high),
        "alpha_high_ns": empty_message(low),
        "beta_ns_per_mb": slope * 1e6,
        "beta_low_ns_per_mb": low * 1e6,
        "beta_high_ns_per_mb": high * 1e6,
        "bandwidth_gb_per_s": _inverse(slope),
        "bandwidth_low_gb_per_s": _inverse(high),
        "bandwidth_high_gb_per_s": _inverse(low),
        "reason": "",
    }


def _inverse(slope: float) -> float:
    """Bandwidth of a slope, bytes per nanosecond; NaN where more bytes take no more time."""
    return 1 / slope if slope > 0 else NAN


def _no_fit(reason: str) -> dict[str, object]:
    numbers = [name for name in LINK_FIT.column_names if name.startswith(("alpha", "beta", "band"))]
    return {**dict.fromkeys(numbers, NAN), "reason": reason}
