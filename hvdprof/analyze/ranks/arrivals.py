"""Last rank of each gradient on one clock, and the error of clocks that collectives bound."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.cell_key import LaunchKey, rows_by_launch
from hvdprof.model.tables.waiting_tables import CLOCKS, COLLECTIVE_ARRIVALS

NOT_READY = np.iinfo(np.int64).min

MOST_CELLS = 4_000_000
"""Ready times per block: 32 MB; finding the last ranks takes several times that."""


@dataclass(frozen=True, slots=True)
class ArrivalCube:
    """Ready times of some steps of one launch, ns on rank 0's clock, [steps, tensors, ranks].

    ``NOT_READY`` marks ranks without the gradient. ``clock_error`` [ranks] is the error of each
    rank's clock.
    """

    key: LaunchKey
    steps: NDArray[np.int64]
    tensors: "pd.Index[str]"
    ranks: NDArray[np.int64]
    ready: NDArray[np.int64]
    clock_error: NDArray[np.int64]


def arrival_cubes(arrivals: pd.DataFrame | Iterable[pd.DataFrame]) -> Iterator[ArrivalCube]:
    """The ready times of every launch, in blocks of steps of bounded memory.

    Args:
        arrivals: ARRIVALS, whole or in parts with whole steps (all ranks), so that a run
            need not fit into memory.
    """
    parts = [arrivals] if isinstance(arrivals, pd.DataFrame) else arrivals
    for part in parts:
        yield from _cubes_of(part)


def corrected_cube(
    cube: ArrivalCube, offsets: NDArray[np.float64], u_ns: NDArray[np.float64]
) -> ArrivalCube:
    """The same ready times with ``offsets`` [ranks] added, and ``u_ns`` [ranks] as their error."""
    shift = np.rint(offsets).astype(np.int64)
    ready = np.where(cube.ready == NOT_READY, NOT_READY, cube.ready + shift)
    # Rounding up: a gap equal to the error is undecided.
    return dataclasses.replace(cube, ready=ready, clock_error=np.ceil(u_ns).astype(np.int64))


def _cubes_of(arrivals: pd.DataFrame) -> Iterator[ArrivalCube]:
    names = ("step", "rank", "ready_ns", "clock_error_ns")
    columns, of_tensors = [arrivals[name].to_numpy() for name in names], arrivals["tensor"].array
    for key, rows in rows_by_launch(arrivals):
        numbers, of_ranks, ready, errors = (column[rows] for column in columns)
        step, steps = _codes(numbers)
        rank, ranks = _codes(of_ranks)
        tensor, tensors = pd.factorize(of_tensors[rows])
        error = np.zeros(len(ranks), dtype=np.int64)
        np.maximum.at(error, rank, errors)
        order = np.argsort(step, kind="stable")
        per_block = max(1, MOST_CELLS // (len(tensors) * len(ranks)))
        edges = np.searchsorted(step[order], np.arange(0, len(steps) + per_block, per_block))
        for number, (low, high) in enumerate(itertools.pairwise(edges)):
            chosen = order[low:high]
            first = number * per_block
            block = steps[first : first + per_block]
            cube = np.full((len(block), len(tensors), len(ranks)), NOT_READY, dtype=np.int64)
            cube[step[chosen] - first, tensor[chosen], rank[chosen]] = ready[chosen]
            yield ArrivalCube(
                key,
                block.astype(np.int64),
                pd.Index(tensors, dtype=str),
                ranks.astype(np.int64),
                cube,
                error,
            )


def collective_arrivals(cube: ArrivalCube) -> pd.DataFrame:
    """COLLECTIVE_ARRIVALS of a block; gradients of fewer than two ranks are omitted."""
    ready = cube.ready
    num_ranks = (ready != NOT_READY).sum(axis=2)
    row, column = np.nonzero(num_ranks > 1)
    held = ready[row, column]
    there = held != NOT_READY
    place = held.argmax(axis=1)
    pick = np.arange(len(held))
    last = held[pick, place]
    others = held.copy()
    others[pick, place] = NOT_READY
    before_last = others.argmax(axis=1)
    second = others[pick, before_last]
    first = np.where(there, held, np.iinfo(np.int64).max).min(axis=1, initial=last.max(initial=0))
    waits = np.where(there, last[:, None] - held, 0).sum(axis=1)
    error = cube.clock_error[place] + cube.clock_error[before_last]
    return COLLECTIVE_ARRIVALS.frame(
        {
            "pass_id": cube.key[0],
            "segment": cube.key[1],
            "step": cube.steps[row],
            "tensor": pd.Categorical.from_codes(column, categories=cube.tensors),
            "num_ranks": num_ranks[row, column],
            "first_ns": first,
            "second_last_ns": second,
            "last_ns": last,
            "last_rank": cube.ranks[place],
            "wait_sum_ns": waits,
            "decided": (last - second) > error,
        }
    )


def last_ready(cube: ArrivalCube) -> NDArray[np.int64]:
    """[steps, ranks] Ready time of the last gradient of each rank; ``NOT_READY`` without any."""
    return np.asarray(cube.ready.max(axis=1))


def _codes(values: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    unique, codes = np.unique(values, return_inverse=True)
    return codes, unique


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
