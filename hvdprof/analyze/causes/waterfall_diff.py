"""Difference of two waterfalls, cause by cause, with its interval."""

import numpy as np
import pandas as pd

from hvdprof.model.causes import CAUSES
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.tables.waterfall_tables import CAUSE_COLUMNS, ENGINE_DIFFS, WATERFALL_DIFF
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_KEY = [column.name for column in CAUSE_COLUMNS]
_ORDER = {term: number for number, term in enumerate(CAUSES)}
_TIMES = ["time_ns", "time_low_ns", "time_high_ns"]


def waterfall_diff(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """WATERFALL_DIFF of two cells, second minus first, one row per cause.

    A straggler or pause that one cell alone has is compared with 0 ns. Terms that one cell does not
    have, because it has no baseline, are omitted; without rows of both there are none.

    The two are taken as independent. The interval of the difference is built from both intervals,
    which need not be symmetric: ``low = d - sqrt((other - other_low)^2 + (one_high - one)^2)`` and
    so on (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).

    Args:
        one: Rows of WATERFALL of the first cell.
        other: Rows of WATERFALL of the second cell, of the same run or another.
    """
    if one.empty or other.empty:
        return WATERFALL_DIFF.empty()
    both = _by_cause(one).merge(
        _by_cause(other), on=_KEY, how="outer", suffixes=("_of_one", "_of_other"), sort=False
    )
    is_named = both["pattern"] != ""
    for whose in ("one", "other"):
        own = [f"{name}_of_{whose}" for name in _TIMES]
        both.loc[is_named & both[own[0]].isna(), own] = 0.0
    both = both.dropna(subset=["time_ns_of_one", "time_ns_of_other"])
    both = both.sort_values("term", key=lambda term: term.map(_ORDER), kind="stable")
    a, b = (
        {end: both[f"time{end}_ns_{whose}"].to_numpy(float) for end in ("", "_low", "_high")}
        for whose in ("of_one", "of_other")
    )
    difference = b[""] - a[""]
    low = difference - np.hypot(b[""] - b["_low"], a["_high"] - a[""])
    high = difference + np.hypot(b["_high"] - b[""], a[""] - a["_low"])
    return WATERFALL_DIFF.frame(
        {
            **{name: both[name].to_numpy() for name in _KEY},
            "one_ns": a[""],
            "other_ns": b[""],
            "difference_ns": difference,
            "low_ns": low,
            "high_ns": high,
            # A comparison with NaN is false: an unknown interval is never significant.
            "significant": (low > 0) | (high < 0),
        }
    )


def _by_cause(rows: pd.DataFrame) -> pd.DataFrame:
    known = rows[rows["term"].isin(CAUSES)]
    keyed = known[[*_KEY, *_TIMES]].astype(dict.fromkeys(_KEY, str))
    # Without a pattern a term has one row: which rank most of it lies on is no part of its name.
    return keyed.assign(ranks=keyed["ranks"].where(keyed["pattern"] != "", ""))


def engine_diffs(waterfall: pd.DataFrame) -> pd.DataFrame:
    """ENGINE_DIFFS of every model and number of ranks that was measured with both engines.

    Args:
        waterfall: WATERFALL.
    """
    if DDP_ENGINE not in set(waterfall["engine"]):
        return ENGINE_DIFFS.empty()
    frames = []
    for model, np_ in waterfall[["model", "np"]].drop_duplicates().itertuples(index=False):
        horovod, ddp = (
            of_base_cell(waterfall, model, np_, engine) for engine in (HOROVOD_ENGINE, DDP_ENGINE)
        )
        if len(horovod) and len(ddp):
            frames.append(waterfall_diff(horovod, ddp).assign(model=model, np=np_))
    return ENGINE_DIFFS.frame(pd.concat(frames)) if frames else ENGINE_DIFFS.empty()
