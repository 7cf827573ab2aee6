"""Difference of two waterfalls, term by term, with its interval."""

import numpy as np
import pandas as pd

from hvdprof.model.causes import CAUSES
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.tables.waterfall_tables import ENGINE_DIFFS, WATERFALL_DIFF
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE


def waterfall_diff(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """WATERFALL_DIFF of two cells, second minus first, one row per term.

    The two are taken as independent. The interval of the difference is built from both intervals,
    which need not be symmetric: ``low = d - sqrt((other - other_low)^2 + (one_high - one)^2)`` and
    so on (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).

    Args:
        one: Rows of WATERFALL of the first cell.
        other: Rows of WATERFALL of the second cell, of the same run or another.
    """
    both = one.merge(other, on="term", suffixes=("_of_one", "_of_other"))
    both = both[both["term"].isin(CAUSES)]
    a, b = (
        {end: both[f"time{end}_ns_{whose}"].to_numpy(float) for end in ("", "_low", "_high")}
        for whose in ("of_one", "of_other")
    )
    difference = b[""] - a[""]
    low = difference - np.hypot(b[""] - b["_low"], a["_high"] - a[""])
    high = difference + np.hypot(b["_high"] - b[""], a[""] - a["_low"])
    return WATERFALL_DIFF.frame(
        {
            "term": both["term"].to_numpy(),
            "one_ns": a[""],
            "other_ns": b[""],
            "difference_ns": difference,
            "low_ns": low,
            "high_ns": high,
            # A comparison with NaN is false: an unknown interval is never significant.
            "significant": (low > 0) | (high < 0),
        }
    )


def engine_diffs(waterfall: pd.DataFrame) -> pd.DataFrame:
    """ENGINE_DIFFS of every model and number of ranks that was measured with both engines.

    Args:
        waterfall: WATERFALL.
    """
    frames = []
    for model, np_ in waterfall[["model", "np"]].drop_duplicates().itertuples(index=False):
        horovod, ddp = (
            of_base_cell(waterfall, model, np_, engine) for engine in (HOROVOD_ENGINE, DDP_ENGINE)
        )
        if len(horovod) and len(ddp):
            frames.append(waterfall_diff(horovod, ddp).assign(model=model, np=np_))
    return ENGINE_DIFFS.frame(pd.concat(frames)) if frames else ENGINE_DIFFS.empty()
