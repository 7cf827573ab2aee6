"""Clocks, arrivals, caused wait and stragglers of all launches of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.analyze.stragglers.arrivals import (
    ArrivalCube,
    arrival_cubes,
    collective_arrivals,
    corrected_cube,
)
from hvdprof.analyze.stragglers.caused_wait import caused_wait
from hvdprof.analyze.stragglers.clock_bounds import (
    clocks,
    corrected,
    ready_of_steps,
    remaining_offsets,
)
from hvdprof.analyze.stragglers.named_cause import NamedCause
from hvdprof.analyze.stragglers.patterns import named_causes
from hvdprof.analyze.stragglers.stragglers import stragglers
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.schema import Table
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, CLOCKS, COLLECTIVE_ARRIVALS, STRAGGLERS


@dataclass(frozen=True, slots=True)
class WaitingTables:
    """CLOCKS, COLLECTIVE_ARRIVALS, CAUSED_WAIT and STRAGGLERS of the launches of two or more ranks.

    ``works`` are the steps of every launch on clocks corrected by the bounds of collectives,
    ``named`` the named causes of each launch, largest first.
    """

    clocks: pd.DataFrame
    collective_arrivals: pd.DataFrame
    caused_wait: pd.DataFrame
    stragglers: pd.DataFrame
    works: Mapping[LaunchKey, StepWork]
    named: Mapping[LaunchKey, Sequence[NamedCause]]


def waiting_tables(arrivals: pd.DataFrame, works: Mapping[LaunchKey, StepWork]) -> WaitingTables:
    """Waiting in every launch of two or more ranks with recorder files of all ranks.

    The ready times are read twice: their bounds on the clocks are known only at the end, and
    correct the times that waiting is computed from.

    Args:
        arrivals: ARRIVALS.
        works: The steps of each launch, of ``analyze.steps.step_work``.
    """
    several = {key: work for key, work in works.items() if len(work.ranks) > 1}
    chosen = _of_launches(arrivals, several)
    ready: dict[LaunchKey, Times] = {}
    for cube, rows, last in ready_of_steps(arrival_cubes(chosen), several):
        grid = ready.setdefault(cube.key, np.full(several[cube.key].before.shape, np.nan))
        grid[rows] = last
    clocks_of = {key: clocks(work, ready.get(key), key) for key, work in several.items()}
    named = {key: named_causes(work) for key, work in works.items()}
    late, caused, on_one_clock = [], [], dict(works)
    for key, work in several.items():
        offsets, u_ns = remaining_offsets(clocks_of[key]), clocks_of[key]["u_ns"].to_numpy()
        on_one_clock[key] = corrected(work, offsets)
        caused.append(caused_wait(on_one_clock[key], u_ns, key))
        costs = caused[-1]["cost_ns"].to_numpy()
        late.append(stragglers(on_one_clock[key], named[key], costs, key))
    cubes = (_on_corrected_clocks(cube, clocks_of) for cube in arrival_cubes(chosen))
    return WaitingTables(
        clocks=_joined(CLOCKS, list(clocks_of.values())),
        collective_arrivals=_joined(COLLECTIVE_ARRIVALS, [collective_arrivals(c) for c in cubes]),
        caused_wait=_joined(CAUSED_WAIT, caused),
        stragglers=_joined(STRAGGLERS, late),
        works=on_one_clock,
        named=named,
    )


def _on_corrected_clocks(
    cube: ArrivalCube, clocks_of: Mapping[LaunchKey, pd.DataFrame]
) -> ArrivalCube:
    clock_rows = clocks_of.get(cube.key)
    if clock_rows is None or clock_rows["rank"].tolist() != cube.ranks.tolist():
        return cube
    u_ns = clock_rows["u_ns"].to_numpy()
    return corrected_cube(cube, remaining_offsets(clock_rows), u_ns)


def _of_launches(arrivals: pd.DataFrame, works: Mapping[LaunchKey, StepWork]) -> pd.DataFrame:
    passes = {pass_id for pass_id, _ in works}
    return arrivals[arrivals["pass_id"].isin(passes).to_numpy()]


def _joined(table: Table, frames: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame.astype({"pass_id": str, "segment": str}) for frame in frames if len(frame)]
    return table.frame(pd.concat(filled, ignore_index=True)) if filled else table.empty()
