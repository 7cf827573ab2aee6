"""What each launch says: its steps after warm-up, their mean and error."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.steady_state import drift_of, steady_window
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.analyze.steps.job_steps import LAUNCH
from hvdprof.model.tables.run_tables import LAUNCHES
from hvdprof.rundir.manifest import Status

LaunchKey = tuple[str, str]


def mark_steady(job_steps: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS in which ``steady`` is false for the warm-up beyond the counted batches."""
    steady = np.ones(len(job_steps), dtype=bool)
    for _, rows in rows_by_launch(job_steps):
        cut = steady_window(_times(job_steps, rows)).num_cut
        steady[rows[:cut]] = False
    return job_steps.assign(steady=steady)


def launches(job_steps: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """LAUNCHES of the segments that were finished, in the order of the segments."""
    rows_of = dict(rows_by_launch(job_steps))
    steady = job_steps["steady"].to_numpy()
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
                "num_steps": len(counted),
                "num_cut_steps": len(measured) - len(counted),
                "step_time_ns": mean.value,
                "step_time_error_ns": mean.error,
                "num_effective_steps": mean.num_effective,
                "drift": drift.change,
                "drift_error": drift.error,
                "steady": steady_window(_times(job_steps, measured)).found,
            }
        )
    return LAUNCHES.frame(rows)


def finished_launches(segments: pd.DataFrame) -> list[LaunchKey]:
    """The segments that ran to their end, or far enough to have a result."""
    done = segments.loc[is_finished(segments), LAUNCH]
    return list(done.astype(str).itertuples(index=False, name=None))


def is_finished(segments: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows of SEGMENTS ran to their end, or far enough to have a result."""
    return segments["status"].isin([Status.DONE, Status.PARTIAL]).to_numpy(dtype=bool)


def rows_by_launch(table: pd.DataFrame) -> Iterator[tuple[LaunchKey, NDArray[np.intp]]]:
    """The positions of the rows of each launch in a table with a row a step."""
    for key, rows in table.groupby(LAUNCH, observed=True, sort=False).indices.items():
        pass_id, segment = cast(LaunchKey, key)
        yield (str(pass_id), str(segment)), np.asarray(rows, dtype=np.intp)


def _times(job_steps: pd.DataFrame, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    return job_steps["dur_ns"].to_numpy()[rows].astype(np.float64)
