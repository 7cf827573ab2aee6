"""Turns in which other processes had the cores that the launch needed.

A turn is left out for what other processes used, never for its step times: that shifts no result.
"""

import numpy as np
import pandas as pd

from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import TURNS

NEGLIGIBLE_CORES = 0.15
"""Cores that other processes may use in any turn: the launching side and the system itself."""

SPARE_SHARE = 0.25
"""The share of the cores that a launch leaves free which other processes may use besides."""

MIN_TURNS = 2


def counted_turns(run: Run) -> pd.DataFrame:
    """TURNS without the disturbed ones of launches that have undisturbed turns enough.

    A launch with fewer than ``MIN_TURNS`` undisturbed turns of a segment keeps all of that segment:
    its interval then includes what the machine was like.
    """
    turns = run.table(TURNS.name)
    if turns.empty:
        return turns
    spare = _spare_cores(run)
    allowed = NEGLIGIBLE_CORES + SPARE_SHARE * turns["pass_id"].astype(str).map(spare).clip(
        lower=0.0
    )
    is_undisturbed = ~(turns["other_cores"] > allowed).to_numpy()
    counts = np.ones(len(turns), dtype=bool)
    for _, rows in rows_by_launch(turns):
        if is_undisturbed[rows].sum() >= MIN_TURNS:
            counts[rows] = is_undisturbed[rows]
    return turns[counts].reset_index(drop=True)


def in_counted_turns(job_steps: pd.DataFrame, turns: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS without those of launches with turns that lie in none of the given turns."""
    if turns.empty:
        return job_steps
    bounds = {
        key: (turns["first_step"].to_numpy()[rows], turns["num_steps"].to_numpy()[rows])
        for key, rows in rows_by_launch(turns)
    }
    counts = np.ones(len(job_steps), dtype=bool)
    numbers = job_steps["step"].to_numpy()
    for key, rows in rows_by_launch(job_steps):
        if key in bounds:
            first, length = bounds[key]
            turn = np.searchsorted(first, numbers[rows], side="right") - 1
            counts[rows] = (turn >= 0) & (numbers[rows] < (first + length)[turn])
    return job_steps[counts].reset_index(drop=True)


def turns_by_launch(turns: pd.DataFrame) -> dict[LaunchKey, int]:
    """The number of turns of each launch."""
    return {key: len(rows) for key, rows in rows_by_launch(turns[LAUNCH])}


def _spare_cores(run: Run) -> dict[str, float]:
    """Cores of the host that the threads of a pass leave free, by pass; 0 where unknown."""
    here = run.manifest.hosts[0] if run.manifest.hosts else {}
    cores = int(here.get("num_cores") or 0)
    threads = run.ranks.assign(threads=run.ranks["num_threads"].clip(lower=1))
    used = threads.groupby("pass_id", observed=True)["threads"].sum()
    return {str(pass_id): float(max(cores - count, 0)) for pass_id, count in used.items()}
