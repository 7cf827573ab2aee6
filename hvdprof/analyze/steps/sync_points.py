"""The points of a step at which all ranks wait for each other, from the recorded waits.

Horovod and DDP have one per step: the reduction of all gradients. FSDP2 has several: the all-gather
of each group of parameters in forward and in backward, and the reduce-scatter of its gradients.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.arrays import Bools, Int64s

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SyncPoints:
    """The synchronizations of a launch in their order; times in ns, arrays [points, ranks].

    Every step has ``per_step`` points, so the point of number ``place`` in step ``k`` is in row
    ``k * per_step + place``. ``begin`` is the release from the point before, or the end of the
    previous step. ``before`` is own time from there to the wait, waits at which not all ranks wait
    excluded. ``arrived`` is the start of the wait, ``submitted`` the time at which the rank
    submitted the collective: earlier than ``arrived`` where the rank computed meanwhile. ``tail``
    is the time from the last arrival to the release, ``after`` the time from there to the end of
    the step, 0 but at the last point of a step. ``follows`` [points] is false where the previous
    step is missing.
    """

    per_step: int
    follows: Bools
    begin: Times
    before: Times
    arrived: Times
    submitted: Times
    tail: Times
    after: Times

    @property
    def released(self) -> Times:
        """[points, ranks] End of each wait."""
        return np.asarray(self.arrived.max(axis=1, keepdims=True) + self.tail)

    def of_steps(self, times: Times) -> Times:
        """[steps, ...] The sums over the points of each step.

        Args:
            times: [points, ...]
        """
        if self.per_step == 1:
            return times
        shape = (len(times) // self.per_step, self.per_step, *times.shape[1:])
        return np.asarray(times.reshape(shape).sum(axis=1))

    def at(self, place: int, times: Times) -> Times:
        """[steps, ...] The times of the point of that number in each step; -1 is the last one."""
        return times[place % self.per_step :: self.per_step]

    def shifted(self, offsets: Times) -> "SyncPoints":
        """The points with ``offsets`` [ranks] added to all times of each rank on the clock."""
        arrived = self.arrived + offsets
        return dataclasses.replace(
            self,
            begin=self.begin + offsets,
            arrived=arrived,
            submitted=self.submitted + offsets,
            tail=self.released + offsets - arrived.max(axis=1, keepdims=True),
        )


MOST_WAITS = 2000
"""Waits of a step from which it counts as one with a single synchronization."""

MOST_SEQUENCES = 64
"""Different sequences of waits in a launch from which its steps likewise count as such."""


@dataclass(frozen=True, slots=True)
class StepGrid:
    """Steps of a launch as in ``StepWork``, ns, [steps, ranks]; ``released`` ends the last wait."""

    ranks: Int64s
    steps: Int64s
    follows: Bools
    begin: Times
    blocked: Times
    released: Times
    after: Times


@dataclass(frozen=True, slots=True)
class _Waits:
    """The waits of all steps in the order of step, rank and time.

    Those of the step in row k and the rank in column r are ``first[k, r] : last[k, r]``.
    """

    is_full: Bools
    code: Int64s
    start: Times
    length: Times
    submitted: Times
    first: Int64s
    last: Int64s

    def sequence(self, row: int, column: int) -> bytes:
        """The kinds of the waits of all ranks in one step of one rank."""
        own = slice(self.first[row, column], self.last[row, column])
        return bytes(self.code[own][self.is_full[own]].astype(np.uint8))


def sync_points(grid: StepGrid, waits: pd.DataFrame) -> SyncPoints | None:
    """The synchronizations that all steps of all ranks have in common.

    Args:
        grid: The steady steps.
        waits: WAITS of the launch.

    Returns:
        None where each step has one of them, or none.
    """
    table = _waits_of(grid, waits)
    num_steps, num_ranks = grid.begin.shape
    sequences = {
        (row, column): table.sequence(row, column)
        for row in range(num_steps)
        for column in range(num_ranks)
    }
    shared = _shared(set(sequences.values()))
    if len(shared) < 2:
        return None
    places = {sequence: np.array(_places(shared, sequence)) for sequence in set(sequences.values())}
    chosen = np.empty((num_steps, len(shared), num_ranks), dtype=np.int64)
    for (row, column), sequence in sequences.items():
        begin, end = table.first[row, column], table.last[row, column]
        full = begin + np.flatnonzero(table.is_full[begin:end])
        chosen[row, :, column] = full[places[sequence]]
    return _points(grid, table, chosen)


def _points(grid: StepGrid, table: _Waits, chosen: Int64s) -> SyncPoints:
    """The points at the waits ``chosen`` [steps, points of a step, ranks]."""
    waited = np.concatenate([[0.0], np.cumsum(table.length)])
    released = table.start[chosen] + table.length[chosen]
    blocked_until = waited[chosen + 1] - waited[table.first][:, None, :]
    # What follows the last point in the step belongs to it.
    released[:, -1], blocked_until[:, -1] = grid.released, grid.blocked
    begin = np.concatenate([grid.begin[:, None, :], released[:, :-1]], axis=1)
    blocked = np.diff(blocked_until, axis=1, prepend=0.0)
    arrived = released - blocked
    submitted = np.fmin(table.submitted[chosen], arrived)
    after = np.zeros_like(released)
    after[:, -1] = grid.after
    per_step, num_ranks = released.shape[1:]
    follows = np.ones(released.shape[:2], dtype=bool)
    follows[:, 0] = grid.follows

    def flat(times: Times) -> Times:
        return np.ascontiguousarray(times.reshape(-1, num_ranks))

    last_arrival = arrived.max(axis=2, keepdims=True)
    return SyncPoints(
        per_step=per_step,
        follows=follows.ravel(),
        begin=flat(begin),
        before=flat(arrived - begin),
        arrived=flat(arrived),
        submitted=flat(submitted),
        tail=flat(released - last_arrival),
        after=flat(after),
    )


def _waits_of(grid: StepGrid, waits: pd.DataFrame) -> _Waits:
    known = waits[waits["step"].isin(grid.steps) & waits["rank"].isin(grid.ranks)]
    row = np.searchsorted(grid.steps, known["step"].to_numpy())
    column = np.searchsorted(grid.ranks, known["rank"].to_numpy())
    start = known["start_ns"].to_numpy(dtype=np.float64)
    cell = row * len(grid.ranks) + column
    order = np.lexsort((start, cell))
    edges = np.searchsorted(cell[order], np.arange(grid.begin.size + 1))
    codes, _ = pd.factorize(known["kind"].astype(str))
    is_full = (known["num_ranks"] == len(grid.ranks)).to_numpy()
    return _Waits(
        is_full=is_full[order],
        code=codes.astype(np.int64)[order],
        start=start[order],
        length=known["dur_ns"].to_numpy(dtype=np.float64)[order],
        submitted=known["submitted_ns"].to_numpy(dtype=np.float64, na_value=np.nan)[order],
        first=edges[:-1].reshape(grid.begin.shape),
        last=edges[1:].reshape(grid.begin.shape),
    )


def _shared(sequences: Iterable[bytes]) -> bytes:
    """A longest subsequence of all; empty where there are too many, or one is too long."""
    distinct = sorted(sequences, key=len)
    if len(distinct) > MOST_SEQUENCES or not distinct or len(distinct[-1]) > MOST_WAITS:
        return b""
    shared = distinct[0]
    for sequence in distinct[1:]:
        shared = _common_subsequence(shared, sequence)
    return shared


def _common_subsequence(one: bytes, other: bytes) -> bytes:
    if one == other or not one:
        return one
    if _is_subsequence(one, other):
        return one
    lengths = np.zeros((len(one) + 1, len(other) + 1), dtype=np.int64)
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            lengths[i, j] = (
                lengths[i + 1, j + 1] + 1
                if one[i] == other[j]
                else max(lengths[i + 1, j], lengths[i, j + 1])
            )
    i = j = 0
    found = bytearray()
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            found.append(one[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1, j] >= lengths[i, j + 1]:
            i += 1
        else:
            j += 1
    return bytes(found)


def _is_subsequence(one: bytes, other: bytes) -> bool:
    left = iter(other)
    return all(code in left for code in one)


def _places(shared: bytes, sequence: bytes) -> list[int]:
    """Where a sequence holds the shared one, each code as early as it can be."""
    places: list[int] = []
    at = 0
    for code in shared:
        at = sequence.index(code, at)
        places.append(at)
        at += 1
    return places
