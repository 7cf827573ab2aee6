"""Step times of the job, all ranks together."""

import pandas as pd

from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.scaling_tables import JOB_STEPS


def job_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS of all recorded segments, with ``steady`` true everywhere.

    A step of the job ends when its last rank ends it: ``e_k = max over ranks``. Its time is
    ``T_k = e_k - e_(k-1)``, so that the times of a launch sum to its wall time. The first step
    after warm-up batches, and after those that begin a turn, has no counted step before it and
    starts at ``max over ranks`` of its start. Steps missing on a recorded rank, and those right
    after one, are omitted. A row of a light recording stands for a window: its time is that of the
    window divided by its number of steps.
    """
    timed = steps[[*LAUNCH, "step", "num_steps", "warmup", "start_ns", "dur_ns"]]
    timed = timed.assign(end_ns=timed["start_ns"] + timed["dur_ns"] * timed["num_steps"])
    table = (
        timed.groupby([*LAUNCH, "step"], observed=True, sort=True)
        .agg(
            start_ns=("start_ns", "max"),
            end_ns=("end_ns", "max"),
            num_steps=("num_steps", "max"),
            ranks=("end_ns", "size"),
            warmup=("warmup", "max"),
        )
        .reset_index()
    )
    counts = ~table["warmup"].to_numpy(dtype=bool)
    table["measured_ranks"] = table["ranks"].where(counts, 0)
    launches = table.groupby(LAUNCH, observed=True, sort=False)
    complete = table["ranks"] == launches["measured_ranks"].transform("max")
    is_first = launches["warmup"].shift(fill_value=True).astype(bool)
    next_step = (table["step"] + table["num_steps"]).groupby(launches.ngroup()).shift()
    follows = (table["step"] == next_step) & complete.shift(fill_value=False)
    before_ns = launches["end_ns"].shift(fill_value=0).where(~is_first, table["start_ns"])
    table["dur_ns"] = (table["end_ns"] - before_ns) // table["num_steps"]
    table["steady"] = True
    return JOB_STEPS.frame(
        table.loc[counts & complete & (is_first | follows), JOB_STEPS.column_names]
    )
