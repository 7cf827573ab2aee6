"""Facts on the steady steps of each launch: step times, parts, samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.launch_key import LaunchKey, rows_by_launch
from hvdprof.model.step_parts import RECORDED_PARTS

PART_COLUMNS = [f"{part}_ns" for part in RECORDED_PARTS]


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Over the steady steps of one launch.

    ``step_times_ns`` are those of the job; ``parts_ns`` the mean of each of
    ``model.step_parts.RECORDED_PARTS`` over ranks and steps, NaN where not measured;
    ``samples`` the mean per rank and step, and ``samples_of_ranks`` the smallest and largest mean
    of a rank.
    """

    step_times_ns: NDArray[np.int64]
    parts_ns: Mapping[str, float]
    samples: float
    samples_of_ranks: tuple[float, float]


Facts = Mapping[LaunchKey, LaunchFacts]


def launch_facts(steps: pd.DataFrame, job_steps: pd.DataFrame) -> dict[LaunchKey, LaunchFacts]:
    """The facts of every launch with a steady step."""
    recorded = dict(rows_by_launch(steps))
    ranks = steps["rank"].to_numpy()
    number, steady = (job_steps[name].to_numpy() for name in ("step", "steady"))
    duration = job_steps["dur_ns"].to_numpy()
    recorded_number, warmup = (steps[name].to_numpy() for name in ("step", "warmup"))
    values = steps[[*PART_COLUMNS, "samples"]].to_numpy(dtype=np.float64)
    facts = {}
    for key, rows in rows_by_launch(job_steps):
        counted = rows[steady[rows]]
        if not len(counted):
            continue
        own = recorded[key]
        own = own[np.isin(recorded_number[own], number[counted]) & ~warmup[own]]
        means = values[own].mean(axis=0)
        of_ranks = pd.Series(values[own, -1]).groupby(ranks[own]).mean()
        facts[key] = LaunchFacts(
            step_times_ns=duration[counted],
            parts_ns=dict(zip(RECORDED_PARTS, map(float, means), strict=False)),
            samples=float(means[-1]),
            samples_of_ranks=(float(of_ranks.min()), float(of_ranks.max())),
        )
    return facts
