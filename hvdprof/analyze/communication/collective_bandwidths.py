"""Bus bandwidth of each collective by its payload, from calls that all ranks recorded."""

import numpy as np
import pandas as pd

from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS

_CLASS = [*LAUNCH, "collective", "num_ranks", "class"]


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
