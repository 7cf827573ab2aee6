"""Scaling of given throughputs against the smallest number of ranks."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof.analyze.scaling.karp_flatt import karp_flatt
from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate, difference
from hvdprof.model.tables.log_tables import THROUGHPUT_SCALING

_POOL = "series"


def throughput_scaling(throughput: pd.DataFrame, *, repeats: bool = False) -> pd.DataFrame:
    """The rows of THROUGHPUT_SCALING for rows of THROUGHPUT.

    Efficiency is (x_N / N) / (x_N0 / N0), speed-up x_N / x_N0, for a fixed batch size
    per rank (weak scaling) and for a fixed global batch.

    Args:
        throughput: Rows of THROUGHPUT.
        repeats: Rows of one series and size are repeats of one measurement: their geometric mean
            counts, and their spread, pooled over the sizes, gives the intervals (Student t).
            Otherwise such rows stay separate, and at the smallest size they leave the series
            without a baseline: two jobs differ in something that the series does not state.
    """
    rows: list[dict[str, object]] = []
    for series, members in throughput.groupby("series", observed=True, sort=False):
        valid = members[members["samples_per_s"] > 0] if repeats else members
        ordered = valid.sort_values("np", kind="stable")
        own = _of_repeats(ordered) if repeats else _of_single_rows(ordered)
        rows += [{"series": str(series), **row} for row in own]
    return THROUGHPUT_SCALING.frame(rows)


def _of_single_rows(ordered: pd.DataFrame) -> Iterator[dict[str, object]]:
    smallest = ordered[ordered["np"] == ordered["np"].iloc[0]]
    base = smallest.iloc[0] if len(smallest) == 1 and len(ordered) > 1 else None
    if base is not None and not float(base["samples_per_s"]) > 0:
        base = None
    for i in range(len(ordered)):
        row = ordered.iloc[i]
        np_, rate = int(row["np"]), float(row["samples_per_s"])
        speedup = NAN if base is None else rate / float(base["samples_per_s"])
        own = _row(np_, None if base is None else int(base["np"]), rate, speedup, row["file"])
        yield own | {"stated_speedup": float(row["stated_speedup"])}


def _of_repeats(ordered: pd.DataFrame) -> Iterator[dict[str, object]]:
    groups = [(int(str(size)), rows) for size, rows in ordered.groupby("np", sort=True)]
    logs = [np.log(rows["samples_per_s"].to_numpy(dtype=np.float64)) for _, rows in groups]
    degrees = sum(len(values) - 1 for values in logs)
    squares = sum(float(np.square(values - values.mean()).sum()) for values in logs)
    variance = squares / degrees if degrees else NAN
    estimates = [
        LogEstimate(float(values.mean()), math.sqrt(variance / len(values)), degrees, _POOL)
        for values in logs
    ]
    for (size, rows), own in zip(groups, estimates, strict=True):
        base_np, base = groups[0][0], estimates[0]
        is_base = size == base_np
        found = difference(own, base).interval()
        row = _row(
            size,
            base_np if len(groups) > 1 else None,
            math.exp(own.value),
            found.value if len(groups) > 1 else NAN,
            rows["file"].iloc[0],
        )
        low, high = (NAN, NAN) if is_base else (found.low, found.high)
        scale = size / base_np
        yield row | {
            "efficiency_low": low / scale,
            "efficiency_high": high / scale,
            "speedup_low": low,
            "speedup_high": high,
            # The fraction falls as the efficiency rises.
            "karp_flatt_low": karp_flatt(high / scale, scale),
            "karp_flatt_high": karp_flatt(low / scale, scale),
            "num_repeats": len(rows),
        }


def _row(size: int, base: int | None, rate: float, speedup: float, file: str) -> dict[str, object]:
    scale = NAN if base is None else size / base
    efficiency = speedup / scale
    return {
        "np": size,
        "samples_per_s": rate,
        "baseline_np": base,
        "speedup": speedup,
        "stated_speedup": NAN,
        "efficiency": efficiency,
        "efficiency_low": NAN,
        "efficiency_high": NAN,
        "speedup_low": NAN,
        "speedup_high": NAN,
        "karp_flatt": karp_flatt(efficiency, scale),
        "karp_flatt_low": NAN,
        "karp_flatt_high": NAN,
        "num_repeats": 1,
        "file": file,
    }
