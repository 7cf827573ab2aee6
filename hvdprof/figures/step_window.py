"""Steps to show on the time axis of their pass, and their place on it."""

from collections.abc import Iterable

import numpy as np

from hvdprof.figures.launch import rows_of_launch
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import Run
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS

_DRAWN = ("part", "negotiation", "operation", "activity")
_MARGIN = 0.1


def step_windows(run: Run, launch: LaunchKey, steps: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Start and end of each step over all ranks, ns since the first event of the pass.

    A pass can hold several segments with the same step numbers, so a number alone is ambiguous. A
    tenth of the step is added on both sides. Unknown steps are omitted.

    Args:
        run: A run directory or standalone files.
        launch: The launch (pass_id, segment).
        steps: Numbers of the steps.
    """
    events = run.events
    is_drawn = (events["pass_id"] == launch[0]) & events["phase"].isin(_DRAWN)
    of_pass = is_drawn.to_numpy(dtype=bool)
    if not of_pass.any():
        return {}
    origin = int(events["start_ns"].to_numpy()[of_pass].min())
    table = run.steps if len(run.steps) else run.table(INFERRED_STEPS.name)
    rows = rows_of_launch(table, launch)
    rows = rows[rows["step"].isin(set(steps)).to_numpy()]
    starts = rows["start_ns"].to_numpy(dtype=np.int64)
    ends = starts + rows["dur_ns"].fillna(0).to_numpy(dtype=np.int64)
    found = rows.assign(start=starts, end=ends).groupby("step").agg({"start": "min", "end": "max"})
    return {
        int(step): (max(start - origin - margin, 0), end - origin + margin)
        for step, start, end in found.itertuples(name=None)
        if (margin := round(_MARGIN * (end - start))) > 0
    }
