"""Last rank of each gradient, from the ready times of all ranks on one clock."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.launch_key import LaunchKey, rows_by_launch
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS

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
    for key, rows in rows_by_launch(arrivals):
        table = arrivals.iloc[rows]
        step, steps = _codes(table["step"].to_numpy())
        rank, ranks = _codes(table["rank"].to_numpy())
        tensor, tensors = pd.factorize(table["tensor"])
        ready = table["ready_ns"].to_numpy()
        error = np.zeros(len(ranks), dtype=np.int64)
        np.maximum.at(error, rank, table["clock_error_ns"].to_numpy())
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
