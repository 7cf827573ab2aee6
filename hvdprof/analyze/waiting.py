"""Arrivals, clocks, blame and stragglers of all launches of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.arrivals import arrival_cubes, collective_arrivals
from hvdprof.analyze.blame import blame
from hvdprof.analyze.clock_bounds import clocks, ready_of_steps
from hvdprof.analyze.launches import LaunchKey
from hvdprof.analyze.step_work import StepWork, Times
from hvdprof.analyze.stragglers import stragglers
from hvdprof.model.schema import Table
from hvdprof.model.waiting_tables import BLAME, CLOCKS, COLLECTIVE_ARRIVALS, STRAGGLERS


@dataclass(frozen=True, slots=True)
class WaitingTables:
    """CLOCKS, COLLECTIVE_ARRIVALS, BLAME and STRAGGLERS of the launches of two or more ranks."""

    clocks: pd.DataFrame
    collective_arrivals: pd.DataFrame
    blame: pd.DataFrame
    stragglers: pd.DataFrame


def waiting_tables(arrivals: pd.DataFrame, works: Mapping[LaunchKey, StepWork]) -> WaitingTables:
    """Who waited for whom in every launch of two or more ranks that all recorded.

    Args:
        arrivals: ARRIVALS.
        works: The steps of each launch, of ``analyze.step_work``.
    """
    several = {key: work for key, work in works.items() if len(work.ranks) > 1}
    chosen = _of_launches(arrivals, several)
    ready: dict[LaunchKey, Times] = {}
    tables = []
    for cube, rows, last in ready_of_steps(arrival_cubes(chosen), several):
        grid = ready.setdefault(cube.key, np.full(several[cube.key].before.shape, np.nan))
        grid[rows] = last
        tables.append(collective_arrivals(cube))
    by_launch = [(key, work, clocks(work, ready.get(key), key)) for key, work in several.items()]
    blames = [blame(work, of["u_ns"].to_numpy(), key) for key, work, of in by_launch]
    late = [
        stragglers(work, table["cost_ns"].to_numpy(), key)
        for (key, work, _), table in zip(by_launch, blames, strict=True)
    ]
    return WaitingTables(
        clocks=_joined(CLOCKS, [of for _, _, of in by_launch]),
        collective_arrivals=_joined(COLLECTIVE_ARRIVALS, tables),
        blame=_joined(BLAME, blames),
        stragglers=_joined(STRAGGLERS, late),
    )


def _of_launches(arrivals: pd.DataFrame, works: Mapping[LaunchKey, StepWork]) -> pd.DataFrame:
    passes = {pass_id for pass_id, _ in works}
    return arrivals[arrivals["pass_id"].isin(passes).to_numpy()]


def _joined(table: Table, frames: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame.astype({"pass_id": str, "segment": str}) for frame in frames if len(frame)]
    return table.frame(pd.concat(filled, ignore_index=True)) if filled else table.empty()
