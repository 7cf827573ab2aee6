"""Which operations were executed together: the file does not say it, its order does."""

from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.timeline.meaning.activities import FUSED
from hvdprof.ingest.timeline.meaning.uses import (
    ENDED_ALONE,
    NEGOTIATION,
    NONE,
    OPERATION,
    PHANTOM,
    Roles,
)
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, RawTimeline
from hvdprof.model.arrays import Bools, Int32s, Int64s

SAME_STAMP_US = 1000
"""Horovod stamps an activity for all tensors of a batch one after the other, microseconds apart."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Executions, one or several tensors each.

    Attributes:
        operation: Rows of ``Slices`` of all operations, in the order of their begin.
        batch: The batch of each of them, from 0; members of a batch stand side by side.
        first: Index into ``operation`` of the first member of each batch.
    """

    operation: Int64s
    batch: Int64s
    first: Int64s

    def __len__(self) -> int:
        """The number of batches."""
        return len(self.first)


def batches_of(raw: RawTimeline, roles: Roles, dtype_of_args: Int32s) -> Batches:
    """The batches of a file.

    Horovod begins all operations of a batch in one loop (operations.cc, PerformOperation), so a
    batch is a longest run of begins of one kind of operation with no other record between them.
    Under NCCL the thread that finishes older batches may write in between. There a run continues
    until the first activity of its members, if the stamps of the last activity agree; what only
    the thread that begins operations writes (negotiations, ranks, cycles) ends it all the same.

    Args:
        raw: The file.
        roles: Of its slices.
        dtype_of_args: Code of the dtype for each code of args, 0 where unknown; tensors of
            different dtypes are never fused (controller.cc, FuseResponses).
    """
    slices = raw.slices
    rows = np.flatnonzero(roles.role == OPERATION)
    if not len(rows):
        empty = np.empty(0, dtype=np.int64)
        return Batches(empty, empty, empty)
    begin = slices.begin_order[rows]
    first_child, last_child = roles.first_activity[rows], roles.last_activity[rows]
    side_by_side = begin[1:] == begin[:-1] + 1
    together = side_by_side | (
        _still_waiting(slices.begin_order, begin, first_child)
        & ((slices.end_order[rows] == OPEN)[:-1] | (slices.end_order[rows][:-1] > begin[1:]))
        & _nothing_of_the_same_thread(raw, roles, begin)
        & _stamps_agree(slices.start_us, last_child)
    )
    name = slices.name[rows]
    fused = np.asarray([name in FUSED for name in raw.names], dtype=bool)[name]
    dtype = dtype_of_args[slices.args[rows]]
    same_dtype = (dtype[1:] == dtype[:-1]) | (dtype[1:] == 0) | (dtype[:-1] == 0)
    together &= fused[1:] & (name[1:] == name[:-1]) & same_dtype
    opens = np.append(True, ~together)
    return Batches(rows, np.cumsum(opens) - 1, np.flatnonzero(opens))


def batch_of_rows(batches: Batches, roles: Roles) -> Int64s:
    """The batch of each slice that is an operation or part of one, ``NONE`` for the others."""
    of_operation = np.full(len(roles.role) + 1, NONE, dtype=np.int64)
    of_operation[batches.operation] = batches.batch
    return of_operation[roles.operation]


def _still_waiting(begin_order: Int64s, begin: Int64s, first_child: Int64s) -> Bools:
    starts = np.where(first_child == NONE, np.iinfo(np.int64).max, begin_order[first_child])
    return np.asarray(starts[:-1] > begin[1:])


def _nothing_of_the_same_thread(raw: RawTimeline, roles: Roles, begin: Int64s) -> Bools:
    slices = raw.slices
    negotiated = (roles.role == NEGOTIATION) | (roles.role == PHANTOM)
    ended = slices.end_order[negotiated | (roles.role == ENDED_ALONE)]
    of_thread = (slices.begin_order[negotiated], ended, raw.ticks.order, raw.marks.order)
    first, last = begin[0], begin[-1]
    number = np.zeros(last - first + 1, dtype=np.int32)
    for order in of_thread:
        number[order[(order >= first) & (order <= last)] - first] = 1
    before = np.cumsum(number, out=number)[begin - first]
    return np.asarray(before[1:] == before[:-1])


def _stamps_agree(start_us: Int64s, last_child: Int64s) -> Bools:
    both = (last_child[1:] != NONE) & (last_child[:-1] != NONE)
    # Where the recording ended before their first activity, nothing speaks against it.
    neither = (last_child[1:] == NONE) & (last_child[:-1] == NONE)
    apart = np.abs(start_us[last_child[1:]] - start_us[last_child[:-1]])
    return np.asarray(neither | (both & (apart <= SAME_STAMP_US)))
