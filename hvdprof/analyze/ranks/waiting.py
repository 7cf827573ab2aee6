"""Clocks, arrivals, caused wait and stragglers of launches, and of some chosen steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.arrivals import (
    ArrivalCube,
    arrival_cubes,
    clocks,
    collective_arrivals,
    corrected,
    corrected_cube,
    ready_of_steps,
    remaining_offsets,
)
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.queues import late_batches
from hvdprof.analyze.ranks.rank_times import RankTimes, rank_times
from hvdprof.analyze.ranks.stragglers import stragglers
from hvdprof.analyze.steps.other_load import passing_core_losses
from hvdprof.analyze.steps.step_work import StepWork, Times, step_work, with_all_ranks
from hvdprof.model.cell_key import LAUNCH, LaunchKey
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import Table, as_text
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.waiting_tables import (
    CAUSED_WAIT,
    CLOCKS,
    COLLECTIVE_ARRIVALS,
    RANK_COSTS,
    STRAGGLERS,
)

UNDECIDED = -1


@dataclass(frozen=True, slots=True)
class StepWaits:
    """Waits for the last rank, [steps, ranks] in ns; ``last`` [steps] is a column or UNDECIDED.

    Of steps with several synchronizations, the rows are those.
    """

    waited: Times
    wait_as_last: Times
    caused_wait: Times
    last: NDArray[np.int64]


def step_waits(arrived: Times, u_ns: Times, submitted: Times | None = None) -> StepWaits:
    """Wait as last rank and wait caused (Shapley) of every synchronization.

    ``wait_as_last`` of the last rank is the gap between the second-last arrival and its own: the
    saving if this rank alone is on time. ``caused_wait`` splits every gap between two arrivals, in
    which j ranks wait, equally among the ranks still missing (the Shapley value of that cost), so
    it sums to all waiting. A step has a last rank only if its gap is at least the sum of the two
    clock errors.

    A collective that was submitted before the wait delays others until its submission alone, and
    only those that wait already.

    Args:
        arrived: [steps, ranks] Arrival of each rank, ns on one clock.
        u_ns: [ranks] Clock error of each rank.
        submitted: [steps, ranks] Submission of each rank, at its arrival or before; at its arrival
            where not given.
    """
    num_steps, num_ranks = arrived.shape
    submitted = arrived if submitted is None else submitted
    order = np.argsort(submitted, axis=1, kind="stable")
    ordered = np.take_along_axis(submitted, order, axis=1)
    last_arrival = ordered[:, -1:]
    wait_as_last = np.zeros_like(arrived)
    last = np.full(num_steps, 0 if num_ranks == 1 else UNDECIDED, dtype=np.int64)
    caused_wait = np.zeros_like(arrived)
    if num_ranks > 1:
        caused_wait = _caused(arrived, submitted)
        # No rank waits before the first one has arrived.
        since = np.maximum(ordered[:, -2], arrived.min(axis=1))
        gap = np.maximum(ordered[:, -1] - since, 0.0)
        np.put_along_axis(wait_as_last, order[:, -1:], gap[:, None], axis=1)
        unsure = u_ns[order[:, -1]] + u_ns[order[:, -2]]
        decided = (gap > 0) & (gap >= unsure)
        last[decided] = order[decided, -1]
    waited = np.maximum(last_arrival - arrived, 0.0)
    return StepWaits(waited, wait_as_last, caused_wait, last)


def _caused(arrived: Times, submitted: Times) -> Times:
    """Every interval between two events, split among the ranks that have not submitted."""
    num_ranks = arrived.shape[1]
    events = np.concatenate([submitted, arrived], axis=1)
    order = np.argsort(events, axis=1, kind="stable")
    gaps = np.diff(np.take_along_axis(events, order, axis=1), axis=1)
    is_arrival = order >= num_ranks
    waiting = np.cumsum(is_arrival, axis=1)[:, :-1]
    missing = num_ranks - np.cumsum(~is_arrival, axis=1)[:, :-1]
    owed = np.zeros(events.shape)
    rate = np.where(missing > 0, waiting / np.maximum(missing, 1), 0.0)
    np.cumsum(gaps * rate, axis=1, out=owed[:, 1:])
    by_event = np.empty_like(owed)
    np.put_along_axis(by_event, order, owed, axis=1)
    return by_event[:, :num_ranks]


def last_of_steps(waits: StepWaits, per_step: int) -> NDArray[np.int64]:
    """[steps] The rank (column) with the longest wait as last rank of a step, or UNDECIDED.

    Args:
        waits: Of the points of the steps.
        per_step: Points of each step.
    """
    if per_step == 1:
        return waits.last
    places = np.arange(waits.waited.shape[1])
    decided = np.where(waits.last[:, None] == places, waits.wait_as_last, 0.0)
    of_steps = decided.reshape(-1, per_step, len(places)).sum(axis=1)
    return np.where(of_steps.any(axis=1), of_steps.argmax(axis=1), UNDECIDED)


def caused_wait(work: StepWork, u_ns: Times, costs: Times, key: LaunchKey) -> pd.DataFrame:
    """CAUSED_WAIT of one launch.

    Args:
        work: The steps of the launch.
        u_ns: [ranks] The clock error of each rank.
        costs: [ranks] What each rank costs (``costs_of_ranks``).
        key: The launch.
    """
    points = work.points
    waits = step_waits(points.arrived, u_ns, points.submitted)
    last = last_of_steps(waits, points.per_step)
    step_ns = float(work.step_times.mean())
    num_ranks = len(work.ranks)
    return CAUSED_WAIT.frame(
        {
            "pass_id": [key[0]] * num_ranks,
            "segment": [key[1]] * num_ranks,
            "rank": work.ranks,
            "num_steps": [len(work.steps)] * num_ranks,
            "share_last": [float((last == place).mean()) for place in range(num_ranks)],
            "share_undecided": [float((last == UNDECIDED).mean())] * num_ranks,
            "waited_ns": points.of_steps(waits.waited).mean(axis=0),
            "wait_as_last_ns": points.of_steps(waits.wait_as_last).mean(axis=0),
            "caused_wait_ns": points.of_steps(waits.caused_wait).mean(axis=0),
            "cost_ns": costs,
            "cost_share": costs / step_ns,
        }
    )


@dataclass(frozen=True, slots=True)
class WaitingTables:
    """CLOCKS, COLLECTIVE_ARRIVALS, CAUSED_WAIT, STRAGGLERS, RANK_COSTS: of two or more ranks.

    ``works`` are the steps of every launch on clocks corrected by the bounds of collectives,
    ``times`` their own times, ``named`` the named causes of each launch, largest first.
    """

    clocks: pd.DataFrame
    collective_arrivals: pd.DataFrame
    caused_wait: pd.DataFrame
    stragglers: pd.DataFrame
    rank_costs: pd.DataFrame
    works: Mapping[LaunchKey, StepWork]
    times: Mapping[LaunchKey, RankTimes]
    named: Mapping[LaunchKey, Sequence[NamedCause]]


def waiting_tables(
    arrivals: pd.DataFrame,
    works: Mapping[LaunchKey, StepWork],
    machine: pd.DataFrame | None = None,
) -> WaitingTables:
    """Waiting in every launch of two or more ranks with recorder files of all ranks.

    The ready times are read twice: their bounds on the clocks are known only at the end, and
    correct the times that waiting is computed from.

    Args:
        arrivals: ARRIVALS.
        works: The steps of each launch, of ``analyze.steps.step_work``.
        machine: RANK_MACHINE, by which waits for a core and for batches are known.
    """
    several = {key: work for key, work in works.items() if len(work.ranks) > 1}
    chosen = _of_launches(arrivals, several)
    ready: dict[LaunchKey, Times] = {}
    for cube, rows, last in ready_of_steps(arrival_cubes(chosen), several):
        grid = ready.setdefault(cube.key, np.full(several[cube.key].own_before_sync.shape, np.nan))
        grid[rows] = last
    clocks_of = {key: clocks(work, ready.get(key), key) for key, work in several.items()}
    on_one_clock = {
        key: corrected(work, remaining_offsets(clocks_of[key])) if key in clocks_of else work
        for key, work in works.items()
    }
    times = own_times(on_one_clock, RANK_MACHINE.empty() if machine is None else machine)
    named = {key: named_causes(own) for key, own in times.items()}
    late, caused, account = [], [], []
    for key in several:
        account.append(rank_costs(times[key], key))
        costs = costs_of_ranks(account[-1], times[key].ranks)
        u_ns = clocks_of[key]["u_ns"].to_numpy()
        caused.append(caused_wait(on_one_clock[key], u_ns, costs, key))
        late.append(stragglers(times[key], named[key], costs, key))
    cubes = (_on_corrected_clocks(cube, clocks_of) for cube in arrival_cubes(chosen))
    return WaitingTables(
        clocks=_joined(CLOCKS, list(clocks_of.values())),
        collective_arrivals=_joined(COLLECTIVE_ARRIVALS, [collective_arrivals(c) for c in cubes]),
        caused_wait=_joined(CAUSED_WAIT, caused),
        stragglers=_joined(STRAGGLERS, late),
        rank_costs=_joined(RANK_COSTS, account),
        works=on_one_clock,
        times=times,
        named=named,
    )


def own_times(
    works: Mapping[LaunchKey, StepWork], machine: pd.DataFrame
) -> dict[LaunchKey, RankTimes]:
    """The own times of launches on one clock; what their ranks lacked is in RANK_MACHINE."""
    losses, late = passing_core_losses(machine), late_batches(machine, [*LAUNCH, "rank"])
    late_of: dict[object, dict[int, bool]] = {}
    for (pass_id, segment, rank), is_late in late.loc[late["known"], "late"].items():
        late_of.setdefault((pass_id, segment), {})[rank] = is_late
    return {
        key: replace(
            rank_times(work), core_losses=losses.get(key, {}), late_batches=late_of.get(key, {})
        )
        for key, work in works.items()
    }


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
    filled = [as_text(frame, LAUNCH) for frame in frames if len(frame)]
    return table.frame(pd.concat(filled, ignore_index=True)) if filled else table.empty()


def costs_by_steps(analysis: RunAnalysis, launch: LaunchKey) -> Callable[[int, int], pd.DataFrame]:
    """RANK_COSTS of a launch from a first step to a last one, both included, as a function of them.

    Only steady steps count; without any in the choice there are no rows. The times of the launch
    are computed once, on clocks corrected by all its steps: costs of all its steps are those of
    the analysis.

    Args:
        analysis: The finished analysis.
        launch: A launch (pass_id, segment) with recorder files of all ranks.
    """

    def own(table: pd.DataFrame, *, has_segments: bool = True) -> pd.DataFrame:
        is_own = table["pass_id"] == launch[0]
        if has_segments:
            is_own &= table["segment"] == launch[1]
        return table[is_own.to_numpy(dtype=bool)]

    run = analysis.run
    events = own(run.events, has_segments=False)
    works = step_work(own(run.steps), events, own(analysis.job_steps), own(run.table(WAITS.name)))
    times = waiting_tables(run.arrivals, with_all_ranks(works, run.segments)).times.get(launch)

    def costs(first: int, last: int) -> pd.DataFrame:
        if times is None or not times.counted(first, last).any():
            return RANK_COSTS.empty()
        return rank_costs(times.between(first, last), launch)

    return costs
