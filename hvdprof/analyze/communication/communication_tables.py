"""The communication tables of a run or of standalone timelines, in order of dependency.

Tested in ``tests/analyze/test_pipeline.py`` too.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from hvdprof.analyze.communication.collectives import collectives, fusion_threshold
from hvdprof.analyze.communication.link_fit import link_fit
from hvdprof.analyze.communication.overlap import overlap
from hvdprof.analyze.communication.tensor_sums import TensorSums
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.run import Run
from hvdprof.model.step_parts import RECORDED_PARTS
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
    return {
        TENSORS.name: sums.tensors(),
        STEP_COMMUNICATION.name: sums.steps(),
        BREAKDOWN.name: breakdown(run.steps, job_steps),
        OVERLAP.name: overlap(run.steps, run.events, executions),
        COLLECTIVES.name: executed,
        LINK_FIT.name: link_fit(executed, _without_ddp(ranks_of, run.segments)),
    }


def _without_ddp(ranks_of: Mapping[LaunchKey, int], segments: pd.DataFrame) -> dict[LaunchKey, int]:
    """Launches whose transfers do not overlap: DDP has several buckets in flight."""
    engines = segments[[*LAUNCH, "engine"]].astype(str).itertuples(index=False, name=None)
    under_ddp = {(pass_id, segment) for pass_id, segment, engine in engines if engine == DDP_ENGINE}
    return {key: size for key, size in ranks_of.items() if key not in under_ddp}


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
    names = dict.fromkeys(LAUNCH, str)
    counted = steps.astype(names).merge(steady.astype(names), on=[*LAUNCH, "step"])
    rows = []
    for key, members in rows_by_launch(counted):
        for rank, own in counted.iloc[members].groupby("rank"):
            step_ns = float(own["dur_ns"].mean())
            for part in RECORDED_PARTS:
                times = own[f"{part}_ns"].to_numpy(dtype="float64")
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
