"""Speed-ups that a table states, held against its own throughputs."""

from collections.abc import Iterable

import pandas as pd

from hvdprof import units
from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling

_LARGEST_DIFFERENCE = 0.02
_ROUNDING = 0.051
"""Tables round speed-ups to a tenth or better."""


def contradicted_speedups(series: Iterable[pd.DataFrame]) -> str:
    """A sentence on stated speed-ups that differ from the throughputs; empty without any.

    Args:
        series: Rows of THROUGHPUT, one frame for each series.
    """
    contradicted: list[int] = []
    for rows in series:
        found = throughput_scaling(rows)
        # Speed-ups may be stated against another baseline, such as one rank of another table.
        stated, computed = found["stated_speedup"], found["speedup"]
        ours = stated[(found["np"] == found["baseline_np"]).fillna(False).to_numpy()]
        if ours.empty or abs(float(ours.iloc[0]) - 1) > _LARGEST_DIFFERENCE:
            continue
        apart = (stated - computed).abs() > (_LARGEST_DIFFERENCE * computed).clip(lower=_ROUNDING)
        contradicted += [int(size) for size in found.loc[apart.to_numpy(), "np"]]
    if not contradicted:
        return ""
    sizes = ", ".join(str(size) for size in sorted(set(contradicted)))
    number = units.counted(len(contradicted), "stated speed-up")
    return f"The throughputs contradict {number} (np={sizes}) by more than 2 %."
