"""The parts of the mean step of each rank."""

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.model.launch_key import LAUNCH, rows_by_launch
from hvdprof.model.tables.collective_tables import BREAKDOWN

_NAMES = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "blocked": "blocked",
    "before_update": "before_update",
    "optimizer": "optimizer",
    "other": "unattributed",
}


def breakdown(steps: pd.DataFrame, job_steps: pd.DataFrame) -> pd.DataFrame:
    """BREAKDOWN of every rank of every launch, over its steady steps.

    A part that is not measured in all of them has no row.

    Args:
        steps: STEPS.
        job_steps: JOB_STEPS with ``steady`` set.
    """
    steady = job_steps.loc[job_steps["steady"], [*LAUNCH, "step"]]
    names = dict.fromkeys(LAUNCH, str)
    counted = steps.astype(names).merge(steady.astype(names), on=[*LAUNCH, "step"])
    rows = []
    for key, members in rows_by_launch(counted):
        for rank, own in counted.iloc[members].groupby("rank"):
            step_ns = float(own["dur_ns"].mean())
            for part, name in _NAMES.items():
                times = own[f"{part}_ns"].to_numpy(dtype="float64")
                if np.isnan(times).any():
                    continue
                mean = mean_of(times).interval()
                rows.append(
                    {
                        "pass_id": key[0],
                        "segment": key[1],
                        "rank": rank,
                        "part": name,
                        "time_ns": mean.value,
                        "time_low_ns": mean.low,
                        "time_high_ns": mean.high,
                        "share": mean.value / step_ns if step_ns else float("nan"),
                    }
                )
    return BREAKDOWN.frame(rows)
