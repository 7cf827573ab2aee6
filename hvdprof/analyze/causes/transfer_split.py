"""What exposed transfer consists of: collectives that execute, or negotiation and Horovod's cycle.

Between the last arrival of a step and the release of the ranks, Horovod negotiates (all ranks
announce their tensors), waits for its next cycle, and executes the fused collectives. Only a
timeline shows the executions, so the split is that of the launches in trace mode of the same cell.
The arrivals are on the clock of rank 0, as are the executions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.intervals import Union, union
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.rundir.manifest import Mode


def executing_shares(
    times: Mapping[Cell, CellTime],
    works: Mapping[LaunchKey, StepWork],
    executions: pd.DataFrame,
) -> dict[Cell, float]:
    """Share of the time after the last arrival in which a collective executes, by cell.

    Keys are cells in throughput mode with a launch in trace mode; a mean over these launches.

    Args:
        times: The launches of each cell, in every mode.
        works: The steps of each launch.
        executions: EXECUTIONS.
    """
    timed = executions.loc[executions["dur_ns"].notna(), [*LAUNCH, "start_ns", "dur_ns"]]
    timed = timed.astype(dict.fromkeys(LAUNCH, str) | {"dur_ns": "int64"})
    shares: dict[LaunchKey, float] = {}
    for key, members in rows_by_launch(timed):
        if key in works:
            own = timed.iloc[members]
            start = own["start_ns"].to_numpy()
            share = executing_share(works[key], union(start, start + own["dur_ns"].to_numpy()))
            if share == share:
                shares[key] = share
    found = {}
    for cell, time in times.items():
        known = _of(time.launches, shares) if cell.mode == Mode.TRACE else []
        if known:
            found[cell.in_mode(Mode.THROUGHPUT)] = float(np.mean(known))
    return found


def executing_share(work: StepWork, executions: Union) -> float:
    """Share of the time between last arrival and release in which a collective executes.

    Args:
        work: The steps of a launch, on the clock of rank 0.
        executions: The executions of the same launch.

    Returns:
        NaN where no time passes between arrival and release.
    """
    arrival = work.arrived.max(axis=1).astype(np.int64)
    release = np.maximum(arrival + work.tail.mean(axis=1).astype(np.int64), arrival)
    whole = int((release - arrival).sum())
    return float(executions.covered(arrival, release).sum()) / whole if whole else NAN


def _of(launches: Sequence[LaunchKey], shares: Mapping[LaunchKey, float]) -> list[float]:
    return [shares[key] for key in launches if key in shares]
