"""Overlap of collectives with the computation of each rank, and blocking exposed communication.

Collectives are those of Horovod's timeline, which rank 0 writes: its times are rank 0's view, on
rank 0's clock, and are used for all ranks, because a collective ends on all ranks together.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.intervals import Union, union
from hvdprof.model.launch_key import rows_by_launch
from hvdprof.model.tables.collective_tables import OVERLAP

_RANK_STEP = ["rank", "step"]


def overlap(steps: pd.DataFrame, events: pd.DataFrame, executions: pd.DataFrame) -> pd.DataFrame:
    """OVERLAP of the steps in which Horovod's timeline was on, for every rank.

    The timeline starts some steps after the recorder: steps without an execution are not in it.

    ``communication = overlapped + exposed``, and ``blocking_exposed`` is a part of ``exposed``. A
    rank computes in its phases (data, forward, backward, optimizer) while it is not blocked.

    Args:
        steps: STEPS.
        events: EVENTS, of which the recorder's pieces are used.
        executions: EXECUTIONS.
    """
    if executions.empty:
        return OVERLAP.empty()
    ended = executions[executions["dur_ns"].notna()]
    pieces = events[(events["source"] == "recorder").to_numpy()]
    rows_of_steps, rows_of_pieces = dict(rows_by_launch(steps)), dict(rows_by_launch(pieces))
    found = []
    for key, rows in rows_by_launch(ended):
        if key in rows_of_steps and key in rows_of_pieces:
            start = ended["start_ns"].to_numpy()[rows]
            length = ended["dur_ns"].to_numpy(dtype="int64")[rows]
            in_timeline = np.unique(ended["step"].to_numpy()[rows])
            own_steps = steps.iloc[rows_of_steps[key]]
            own_steps = own_steps[own_steps["step"].isin(in_timeline)]
            own_pieces = pieces.iloc[rows_of_pieces[key]]
            table = _of_launch(union(start, start + length), own_steps, own_pieces)
            found.append(table.assign(pass_id=key[0], segment=key[1]))
    return OVERLAP.frame(pd.concat(found, ignore_index=True)) if found else OVERLAP.empty()


def _of_launch(collectives: Union, steps: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    table = steps[_RANK_STEP].reset_index(drop=True)
    table["communication_ns"] = _covered(collectives, steps)
    covered = pieces[[*_RANK_STEP, "activity"]].assign(ns=_covered(collectives, pieces))
    is_blocked = (covered["activity"] == "blocked").to_numpy()
    blocked = _sums(covered[is_blocked], "blocking_exposed_ns")
    # A blocked piece lies within a phase: its time is not covered by computation.
    phases = _sums(covered[~is_blocked], "phases_ns")
    table = table.merge(blocked, on=_RANK_STEP, how="left").merge(phases, on=_RANK_STEP, how="left")
    filled = table.fillna({"blocking_exposed_ns": 0, "phases_ns": 0})
    filled["overlapped_ns"] = filled["phases_ns"] - filled["blocking_exposed_ns"]
    filled["exposed_ns"] = filled["communication_ns"] - filled["overlapped_ns"]
    return filled.drop(columns="phases_ns")


def _covered(collectives: Union, rows: pd.DataFrame) -> NDArray[np.int64]:
    start = rows["start_ns"].to_numpy()
    return collectives.covered(start, start + rows["dur_ns"].to_numpy())


def _sums(covered: pd.DataFrame, name: str) -> pd.DataFrame:
    return covered.groupby(_RANK_STEP)["ns"].sum().rename(name).reset_index()
