"""Scaling of throughputs that somebody else measured: against the smallest number of ranks."""

from typing import Any

import pandas as pd

from hvdprof.model.log_tables import THROUGHPUT_SCALING


def throughput_scaling(throughput: pd.DataFrame) -> pd.DataFrame:
    """The rows of THROUGHPUT_SCALING for rows of THROUGHPUT.

    A series has a baseline only where its smallest number of ranks stands there once, and with a
    throughput above 0: two jobs of the same size differ in something that the series does not
    say. Efficiency is (x_N / N) / (x_N0 / N0), speed-up x_N / x_N0, in a series of one batch size
    a rank (weak scaling) as in one of a fixed global batch.
    """
    rows = []
    for series, members in throughput.groupby("series", observed=True, sort=False):
        ordered = members.sort_values("np", kind="stable")
        smallest = ordered[ordered["np"] == ordered["np"].iloc[0]]
        base = smallest.iloc[0] if len(smallest) == 1 and len(ordered) > 1 else None
        for i in range(len(ordered)):
            rows.append(_row(str(series), ordered.iloc[i], base))
    return THROUGHPUT_SCALING.frame(rows)


def _row(series: str, row: "pd.Series[Any]", base: "pd.Series[Any] | None") -> dict[str, Any]:
    np, rate = int(row["np"]), float(row["samples_per_s"])
    if base is None or not float(base["samples_per_s"]) > 0:
        speedup, efficiency, baseline_np = float("nan"), float("nan"), None
    else:
        baseline_np = int(base["np"])
        speedup = rate / float(base["samples_per_s"])
        efficiency = speedup * baseline_np / np
    return {
        "series": series,
        "np": np,
        "samples_per_s": rate,
        "baseline_np": baseline_np,
        "speedup": speedup,
        "efficiency": efficiency,
        "file": row["file"],
    }
