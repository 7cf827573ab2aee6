"""Each launch: its steps after warm-up, their mean and error."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.steady_state import drift_of, steady_window
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.model.launch_key import LaunchKey, finished_launches, rows_by_launch
from hvdprof.model.tables.scaling_tables import LAUNCHES


def mark_steady(job_steps: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS in which ``steady`` is false for the warm-up beyond the counted batches."""
    steady = np.ones(len(job_steps), dtype=bool)
    for _, rows in rows_by_launch(job_steps):
        cut = steady_window(_times(job_steps, rows)).num_cut
        steady[rows[:cut]] = False
    return job_steps.assign(steady=steady)


def launches(
    job_steps: pd.DataFrame,
    segments: pd.DataFrame,
    num_turns: Mapping[LaunchKey, int] = MappingProxyType({}),
) -> pd.DataFrame:
    """LAUNCHES of the finished segments, in the order of the segments.

    Args:
        job_steps: JOB_STEPS, with ``steady`` as ``mark_steady`` sets it.
        segments: SEGMENTS.
        num_turns: The number of counted turns of each launch that took turns.
    """
    rows_of = dict(rows_by_launch(job_steps))
    steady, sizes = (job_steps[name].to_numpy() for name in ("steady", "num_steps"))
    rows = []
    for key in finished_launches(segments):
        if key not in rows_of:
            continue
        measured = rows_of[key]
        counted = measured[steady[measured]]
        times = _times(job_steps, counted)
        mean, drift = mean_of(times), drift_of(times)
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "num_steps": int(sizes[counted].sum()),
                "num_cut_steps": int(sizes[measured].sum() - sizes[counted].sum()),
                "num_turns": num_turns.get(key, 0),
                "step_time_ns": mean.value,
                "step_time_error_ns": mean.error,
                "num_effective_steps": mean.num_effective,
                "drift": drift.change,
                "drift_error": drift.error,
                "steady": steady_window(_times(job_steps, measured)).found,
            }
        )
    return LAUNCHES.frame(rows)


def _times(job_steps: pd.DataFrame, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    return job_steps["dur_ns"].to_numpy()[rows].astype(np.float64)
