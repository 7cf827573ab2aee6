"""Remaining error of aligned clocks, bounded by the collectives themselves.

No rank leaves a collective before its last rank has arrived. If rank q has its last gradient ready
at a_q and rank r is released at e_r, then with the true corrections c of both clocks

    a_q + c_q <= e_r + c_r      for every step, so  c_q - c_r <= min over steps of (e_r - a_q)

These differences bound every c against rank 0 by shortest paths (difference constraints, Bellman
1958). Together with the bound of the clock exchange they leave an interval for each rank.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.analyze.stragglers.arrivals import NOT_READY, ArrivalCube, last_ready
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waiting_tables import CLOCKS


def pair_bounds(ready: Times, released: Times) -> Times:
    """[ranks, ranks] Bound of c_q - c_r in row q and column r, ns.

    Args:
        ready: [steps, ranks] Ready time of the last gradient of each rank; NaN without one.
        released: [steps, ranks] Release of each rank.
    """
    num_ranks = ready.shape[1]
    bounds = np.full((num_ranks, num_ranks), np.inf)
    for q in range(num_ranks):
        room = released - ready[:, q : q + 1]
        bounds[q] = np.nanmin(room, axis=0, initial=np.inf)
    np.fill_diagonal(bounds, 0.0)
    return bounds


def shortest(bounds: Times) -> Times:
    """All-pairs shortest paths (Floyd and Warshall); a negative diagonal is a contradiction."""
    paths = bounds.copy()
    for middle in range(len(paths)):
        np.minimum(paths, paths[:, middle : middle + 1] + paths[middle], out=paths)
    return paths


def clocks(work: StepWork, ready: Times | None, key: LaunchKey) -> pd.DataFrame:
    """CLOCKS of one launch.

    Args:
        work: Its steps.
        ready: [steps, ranks] as in ``pair_bounds`` for the same steps and ranks; None without
            recorded ready times: the bound is then that of the exchange alone, and of the points
            of steps with several synchronizations.
        key: The launch.
    """
    exchange = work.clock_error.max(axis=0)
    low, high = 0.0 - exchange, exchange.copy()
    consistent = np.ones(len(exchange), dtype=bool)
    known = [] if ready is None else [pair_bounds(ready, work.end - work.own_after_release)]
    if work.syncs is not None:
        known.append(pair_bounds(work.syncs.submitted, work.syncs.released))
    if known and len(exchange) > 1:
        proven_low, proven_high = _against_rank_0(np.minimum.reduce(known), exchange)
        consistent = proven_low <= proven_high
        low = np.where(consistent, proven_low, low)
        high = np.where(consistent, proven_high, high)
    return CLOCKS.frame(
        {
            "pass_id": [key[0]] * len(exchange),
            "segment": [key[1]] * len(exchange),
            "rank": work.ranks,
            "exchange_error_ns": exchange.astype(np.int64),
            "offset_low_ns": low,
            "offset_high_ns": high,
            "u_ns": (high - low) / 2,
            "consistent": consistent,
        }
    )


def remaining_offsets(clocks: pd.DataFrame) -> Times:
    """[ranks] The middle of each interval of CLOCKS, ns, to add to the times of the rank.

    The true correction is within ``u_ns`` of it, not necessarily within ``u_ns`` of 0.
    """
    middle = (clocks["offset_low_ns"] + clocks["offset_high_ns"]) / 2
    return middle.to_numpy(dtype=np.float64)


def corrected(work: StepWork, offsets: Times) -> StepWork:
    """The same steps with ``offsets`` [ranks], ns, added to all times of each rank.

    Times on a rank's own clock are unchanged; ``tail`` changes, because it starts with the arrival
    of another rank.
    """
    arrived = work.arrived + offsets
    released = work.end - work.own_after_release + offsets
    return dataclasses.replace(
        work,
        begin=work.begin + offsets,
        arrived=arrived,
        transfer=released - arrived.max(axis=1, keepdims=True),
        syncs=None if work.syncs is None else work.syncs.shifted(offsets),
    )


def _against_rank_0(bounds: Times, exchange: Times) -> tuple[Times, Times]:
    both = bounds.copy()
    # The exchange also bounds each rank against rank 0.
    both[:, 0] = np.minimum(both[:, 0], exchange)
    both[0, :] = np.minimum(both[0, :], exchange)
    both[0, 0] = 0.0
    to_0, from_0 = _from_first(both.T), _from_first(both)
    if to_0 is None or from_0 is None:
        paths = shortest(both)
        to_0, from_0 = paths[:, 0], paths[0]
    return 0.0 - from_0, to_0


def _from_first(bounds: Times) -> Times | None:
    """Shortest paths from rank 0; None where they need many rounds, as contradictions do."""
    found: Times = bounds[0].copy()
    # A round takes time with the square of the ranks, all pairs take it with the cube.
    for _ in range(8):
        shorter: Times = (found[:, None] + bounds).min(axis=0)
        if np.array_equal(shorter, found):
            return found
        found = shorter
    return None


def ready_of_steps(
    cubes: Iterator[ArrivalCube], works: Mapping[LaunchKey, StepWork]
) -> Iterator[tuple[ArrivalCube, NDArray[np.intp], Times]]:
    """Each block with the rows of its launch's steps and the last ready times [steps, ranks]."""
    for cube in cubes:
        work = works.get(cube.key)
        if work is None or len(work.ranks) != len(cube.ranks):
            continue
        here = np.isin(work.steps, cube.steps)
        rows = np.searchsorted(cube.steps, work.steps[here])
        last = last_ready(cube)[rows]
        yield cube, np.flatnonzero(here), np.where(last == NOT_READY, np.nan, last)
