"""Two waterfalls side by side: the difference of every term, with its interval."""

import math

import numpy as np
import pandas as pd

from hvdprof.model.causes import CAUSES


def waterfall_diff(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """What each term of the other cell takes more than that of the one, a row a term.

    Columns: term, one_ns, other_ns, difference_ns, low_ns and high_ns (95 % interval, NaN where
    one of the two has none). The two are taken as independent; the interval of the difference is
    made of theirs, which need not be symmetric: ``low = d - sqrt((other - other_low)^2 +
    (one_high - one)^2)`` and so on (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).

    Args:
        one: Rows of WATERFALL of one cell.
        other: Rows of WATERFALL of another cell, of the same run or another.
    """
    both = one.merge(other, on="term", suffixes=("_of_one", "_of_other"))
    both = both[both["term"].isin(CAUSES)]
    a, b = (
        {end: both[f"time{end}_ns_{whose}"].to_numpy(float) for end in ("", "_low", "_high")}
        for whose in ("of_one", "of_other")
    )
    difference = b[""] - a[""]
    below = np.hypot(b[""] - b["_low"], a["_high"] - a[""])
    above = np.hypot(b["_high"] - b[""], a[""] - a["_low"])
    return pd.DataFrame(
        {
            "term": both["term"].to_numpy(),
            "one_ns": a[""],
            "other_ns": b[""],
            "difference_ns": difference,
            "low_ns": difference - below,
            "high_ns": difference + above,
        }
    )


def is_significant(low: float, high: float) -> bool:
    """Whether an interval is known and does not hold 0."""
    return not (math.isnan(low) or math.isnan(high)) and (low > 0 or high < 0)
