"""Replay of steps from the ready times of gradients and the times of the collectives.

A check of the model behind the other replays: Horovod reduces fused buckets one after the other,
each as soon as its last gradient is ready on the last rank and the previous bucket is finished
(dPRO, Hu et al., MLSys 2022, replays the same chain from its own traces):

    f_i = max(ready_i, f_(i-1)) + lag + c_i
    release = max(f_last, last arrival) + rest

``c_i`` is measured for every bucket, ``lag`` and ``rest`` are one number per launch. The remaining
error is not explained by this model.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.tables.waterfall_tables import REPLAYS

LEAST_STEPS = 5


def bucket_replays(
    works: Mapping[LaunchKey, StepWork],
    collective_arrivals: pd.DataFrame,
    uses: pd.DataFrame,
    executions: pd.DataFrame,
) -> pd.DataFrame:
    """REPLAYS of the launches whose collectives are in a timeline.

    Args:
        works: The steady steps of each launch.
        collective_arrivals: COLLECTIVE_ARRIVALS.
        uses: TENSOR_USES, for the gradients of each execution.
        executions: EXECUTIONS.
    """
    buckets = _buckets(collective_arrivals, uses, executions)
    rows = []
    for key, members in rows_by_launch(buckets):
        work = works.get(key)
        if work is None or len(work.ranks) < 2:
            continue
        found = _replay(work, buckets.iloc[members])
        if found is None:
            continue
        measured, replayed = found
        errors = np.abs(replayed - measured) / measured
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "num_steps": len(measured),
                "step_time_ns": float(measured.mean()),
                "replayed_ns": float(replayed.mean()),
                "error_median": float(np.median(errors)),
                "error_p95": float(np.percentile(errors, 95)),
            }
        )
    return REPLAYS.frame(rows)


def _buckets(arrivals: pd.DataFrame, uses: pd.DataFrame, executions: pd.DataFrame) -> pd.DataFrame:
    """One row per execution of gradients: step, start, duration, last ready time."""
    names = dict.fromkeys((*LAUNCH, "tensor"), str)
    fused = uses.loc[
        (uses["fusion_id"] >= 0) & (uses["step"] >= 0), [*LAUNCH, "step", "tensor", "fusion_id"]
    ].astype(names)
    ready = arrivals[[*LAUNCH, "step", "tensor", "last_ns"]].astype(names)
    last = (
        fused.merge(ready, on=[*LAUNCH, "step", "tensor"])
        .groupby([*LAUNCH, "step", "fusion_id"], sort=False)["last_ns"]
        .max()
        .reset_index()
    )
    timed = executions.loc[
        executions["dur_ns"].notna(), [*LAUNCH, "fusion_id", "start_ns", "dur_ns"]
    ].astype(dict.fromkeys(LAUNCH, str) | {"dur_ns": "int64"})
    joined = last.merge(timed, on=[*LAUNCH, "fusion_id"])
    return joined.sort_values([*LAUNCH, "step", "start_ns"], ignore_index=True)


def _replay(
    work: StepWork, buckets: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    steps = buckets["step"].to_numpy()
    ready, start, cost = (
        buckets[name].to_numpy(dtype=np.float64) for name in ("last_ns", "start_ns", "dur_ns")
    )
    first = np.diff(steps, prepend=-1) != 0
    before = np.where(first, -np.inf, np.roll(start + cost, 1))
    lag = max(0.0, float(np.median(start - np.maximum(ready, before))))
    through = _chain(ready, cost + lag, first)
    ends = np.flatnonzero(np.diff(steps, append=-1) != 0)
    here = np.isin(work.steps, steps[ends])
    if here.sum() < LEAST_STEPS:
        return None
    place = np.searchsorted(steps[ends], work.steps[here])
    arrival = work.arrived[here].max(axis=1)
    release = (work.arrived.max(axis=1, keepdims=True) + work.tail)[here]
    measured_last = np.maximum((start + cost)[ends][place], arrival)
    rest = np.median(release - measured_last[:, None], axis=0)
    replayed_last = np.maximum(through[ends][place], arrival)
    end = (replayed_last[:, None] + rest + work.after[here]).max(axis=1)
    return work.step_times[here], end - work.begin[here].max(axis=1)


def _chain(ready: Times, cost: Times, first: NDArray[np.bool_]) -> Times:
    through = np.empty(len(ready))
    now = -np.inf
    for i in range(len(ready)):
        now = max(ready[i], -np.inf if first[i] else now) + cost[i]
        through[i] = now
    return through
