"""The communication tables of a run or of standalone timelines, in order of dependency."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.communication.matched_collectives import collectives, fusion_threshold
from hvdprof.analyze.communication.network import link_fit
from hvdprof.analyze.communication.tensor_sums import TensorSums
from hvdprof.analyze.stats.intervals import Union, union
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.run import Run
from hvdprof.model.tables.collective_tables import (
    BREAKDOWN,
    COLLECTIVES,
    LINK_FIT,
    OVERLAP,
    STEP_COMMUNICATION,
    TENSORS,
)
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES, TIMELINES
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_SIZES = [*LAUNCH, "np"]
_RANK_STEP = ["rank", "step"]


def communication_tables(
    run: Run, job_steps: pd.DataFrame, arrivals: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """TENSORS, STEP_COMMUNICATION, BREAKDOWN, OVERLAP, COLLECTIVES and LINK_FIT by name.

    Args:
        run: A run directory, or standalone files, of which only timelines are used.
        job_steps: JOB_STEPS with ``steady`` set.
        arrivals: COLLECTIVE_ARRIVALS.
    """
    executions, uses = run.table(EXECUTIONS.name), run.table(TENSOR_USES.name)
    sums = TensorSums()
    sums.add(executions, uses)
    ranks_of = _ranks_of(run)
    executed = collectives(executions, uses, arrivals, ranks_of, _threshold_of(run))
    # Launches whose transfers do not overlap: DDP has several buckets in flight.
    engines = run.segments[[*LAUNCH, "engine"]].astype(str).itertuples(index=False, name=None)
    under_ddp = {(pass_id, segment) for pass_id, segment, engine in engines if engine == DDP_ENGINE}
    return {
        TENSORS.name: sums.tensors(),
        STEP_COMMUNICATION.name: sums.steps(),
        BREAKDOWN.name: breakdown(run.steps, job_steps),
        OVERLAP.name: overlap(run.steps, run.events, executions),
        COLLECTIVES.name: executed,
        LINK_FIT.name: link_fit(
            executed, {key: size for key, size in ranks_of.items() if key not in under_ddp}
        ),
    }


def _ranks_of(run: Run) -> dict[LaunchKey, int]:
    """Ranks by launch; of a standalone timeline where the file shows it."""
    segments = run.segments.rename(columns={"size": "np"})
    known = pd.concat([frame[_SIZES] for frame in (run.table(TIMELINES.name), segments)])
    return {
        (str(pass_id), str(segment)): int(size)
        for pass_id, segment, size in known.dropna().itertuples(index=False, name=None)
    }


def _threshold_of(run: Run) -> dict[LaunchKey, int]:
    inherited = run.manifest.environment
    by_pass = {
        record.id: fusion_threshold({**inherited, **record.environment})
        for record in run.manifest.passes
        if record.engine == HOROVOD_ENGINE
    }
    names = run.segments[LAUNCH].astype(str).itertuples(index=False, name=None)
    found = {(pass_id, segment): by_pass.get(pass_id) for pass_id, segment in names}
    return {key: threshold for key, threshold in found.items() if threshold}


def breakdown(steps: pd.DataFrame, job_steps: pd.DataFrame) -> pd.DataFrame:
    """BREAKDOWN of every rank of every launch, over its steady steps.

    A part that is not measured in all of them has no row.

    Args:
        steps: STEPS.
        job_steps: JOB_STEPS with ``steady`` set.
    """
    steady = job_steps.loc[job_steps["steady"], [*LAUNCH, "step"]]
    wanted = {key: steady["step"].to_numpy()[own] for key, own in rows_by_launch(steady)}
    number, ranks, lengths = (steps[name].to_numpy() for name in ("step", "rank", "dur_ns"))
    parts = {part: steps[f"{part}_ns"].to_numpy(dtype="float64") for part in RECORDED_PARTS}
    rows = []
    for key, members in rows_by_launch(steps):
        members = members[np.isin(number[members], wanted.get(key, ()))]
        for rank in np.unique(ranks[members]):
            own = members[ranks[members] == rank]
            step_ns = float(lengths[own].mean())
            for part, times_of_all in parts.items():
                times = times_of_all[own]
                if np.isnan(times).any():
                    continue
                mean = mean_of(times).interval()
                rows.append(
                    {
                        "pass_id": key[0],
                        "segment": key[1],
                        "rank": rank,
                        "part": part,
                        "time_ns": mean.value,
                        "time_low_ns": mean.low,
                        "time_high_ns": mean.high,
                        "share": mean.value / step_ns if step_ns else float("nan"),
                    }
                )
    return BREAKDOWN.frame(rows)


def overlap(steps: pd.DataFrame, events: pd.DataFrame, executions: pd.DataFrame) -> pd.DataFrame:
    """OVERLAP of the steps in which Horovod's timeline was on, for every rank.

    The timeline starts some steps after the recorder: steps without an execution are not in it.

    ``communication = overlapped + exposed``, and ``blocking_exposed`` is a part of ``exposed``. A
    rank computes in its phases (data, forward, backward, optimizer) while it is not blocked. Times
    of the timeline are rank 0's view on its clock, and are used for all ranks: a collective ends on
    all of them together.

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
    covered = _covered(collectives, pieces)
    is_blocked = (pieces["activity"] == "blocked").to_numpy()
    of_both = [
        np.concatenate([part[name].to_numpy() for part in (steps, pieces)]) for name in _RANK_STEP
    ]
    _, place = np.unique(np.stack(of_both), axis=1, return_inverse=True)
    of_steps, of_pieces = np.split(place, [len(steps)])
    # A blocked piece lies within a phase: its time is not covered by computation.
    sums = np.zeros((2, len(place)), dtype=np.int64)
    np.add.at(sums, (is_blocked.astype(np.int64), of_pieces), covered)
    phases, blocked = sums[:, of_steps]
    table["blocking_exposed_ns"] = blocked
    table["overlapped_ns"] = phases - blocked
    table["exposed_ns"] = table["communication_ns"] - table["overlapped_ns"]
    return table


def _covered(collectives: Union, rows: pd.DataFrame) -> NDArray[np.int64]:
    start = rows["start_ns"].to_numpy()
    return collectives.covered(start, start + rows["dur_ns"].to_numpy())
