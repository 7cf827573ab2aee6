"""What exposed transfer consists of: collectives, copies for fusion, negotiation and cycle.

Between the last arrival of a step and the release of the ranks, Horovod negotiates (all ranks
announce their tensors), waits for its next cycle, and executes the fused collectives. Only a
timeline shows the executions, so the split is that of the launches in trace mode of the same cell,
and holds where these have about as much of that time. The arrivals are on the clock of rank 0, as
are the executions.

Of an execution, a part copies gradients into and out of the fusion buffer. Where an execution
begins before the last arrival, its copies are taken to be spread evenly over it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.intervals import union
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.arrays import Int64s
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.schema import as_text
from hvdprof.rundir.manifest import Mode

_TIMES = ("start_ns", "dur_ns", "copy_ns")


@dataclass(frozen=True, slots=True)
class TransferSplit:
    """Shares of the time between last arrival and release.

    ``executing`` is that in which a collective executes; ``copying``, a part of it, that in which
    gradients are copied into and out of the fusion buffer. ``traced_ns`` is that time per step in
    the launches in trace mode.
    """

    executing: float
    copying: float
    traced_ns: float

    def of(self, time_ns: float) -> "TransferSplit":
        """The split of as much exposed transfer per step in other launches of the cell.

        Without shares where a trace launch has less than half of it or more than twice as much:
        most of it is then something that the trace launch does not have, or the reverse.
        """
        if self.traced_ns <= MOST_APART * time_ns and time_ns <= MOST_APART * self.traced_ns:
            return self
        return TransferSplit(NAN, NAN, self.traced_ns)


UNKNOWN = TransferSplit(NAN, NAN, NAN)

MOST_APART = 2.0
"""Factor between exposed transfer of trace and throughput launches up to which one splits both."""


def transfer_splits(
    times: Mapping[Cell, CellTime],
    works: Mapping[LaunchKey, StepWork],
    executions: pd.DataFrame,
) -> dict[Cell, TransferSplit]:
    """What the time after the last arrival consists of, by cell.

    Keys are cells in throughput mode with a launch in trace mode; a mean over these launches.

    Args:
        times: The launches of each cell, in every mode.
        works: The steps of each launch.
        executions: EXECUTIONS.
    """
    timed = executions.loc[executions["dur_ns"].notna(), [*LAUNCH, *_TIMES]]
    timed = as_text(timed, LAUNCH).astype(dict.fromkeys(_TIMES, "int64"))
    splits: dict[LaunchKey, TransferSplit] = {}
    for key, members in rows_by_launch(timed):
        if key in works:
            own = timed.iloc[members]
            split = transfer_split(works[key], *(own[name].to_numpy() for name in _TIMES))
            if split is not UNKNOWN:
                splits[key] = split
    found = {}
    for cell, time in times.items():
        known = [splits[key] for key in time.launches if key in splits]
        if known and cell.mode == Mode.TRACE:
            found[cell.in_mode(Mode.THROUGHPUT)] = TransferSplit(
                *(
                    float(np.mean([getattr(launch, one.name) for launch in known]))
                    for one in fields(TransferSplit)
                )
            )
    return found


def transfer_split(
    work: StepWork, start_ns: Int64s, dur_ns: Int64s, copy_ns: Int64s
) -> TransferSplit:
    """What the time between last arrival and release consists of in one launch.

    Args:
        work: The steps of the launch, on the clock of rank 0.
        start_ns: Starts of its executions, on the same clock.
        dur_ns: Their lengths.
        copy_ns: The time that each of them copies.

    Returns:
        ``UNKNOWN`` where no time passes between arrival and release.
    """
    arrival = work.arrived.max(axis=1).astype(np.int64)
    release = np.maximum(arrival + work.transfer.mean(axis=1).astype(np.int64), arrival)
    whole = int((release - arrival).sum())
    if not whole:
        return UNKNOWN
    executing = float(union(start_ns, start_ns + dur_ns).covered(arrival, release).sum())
    exposed = union(arrival, release).covered(start_ns, start_ns + dur_ns)
    copying = float((exposed * np.minimum(copy_ns / np.maximum(dur_ns, 1), 1.0)).sum())
    return TransferSplit(executing / whole, min(copying, executing) / whole, whole / len(arrival))
