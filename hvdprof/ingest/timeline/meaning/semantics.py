"""All that is understood of one timeline file, or of a part of it, each thing computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.ingest.timeline.meaning.activities import (
    FUSED,
    NEGOTIATE,
    OPERATIONS,
    REDUCTIONS,
    UNKNOWN,
    Payloads,
    payloads_of,
)
from hvdprof.ingest.timeline.meaning.rounds import Reductions
from hvdprof.ingest.timeline.meaning.ticks import Readiness, TickPlaces, places_of
from hvdprof.ingest.timeline.meaning.uses import (
    ACTIVITY,
    ENDED_ALONE,
    NEGOTIATION,
    NONE,
    OPERATION,
    PHANTOM,
    Roles,
    Tensors,
    Uses,
    roles_and_uses,
    tensors_of,
)
from hvdprof.ingest.timeline.syntax.parsed_timeline import (
    OPEN,
    RawTimeline,
    stood_at,
    with_clamped_timestamps,
)
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
    starts = np.where(first_child == NONE, np.iinfo(np.int64).max, slices.begin_order[first_child])
    both = (last_child[1:] != NONE) & (last_child[:-1] != NONE)
    # Where the recording ended before their first activity, nothing speaks against it.
    neither = (last_child[1:] == NONE) & (last_child[:-1] == NONE)
    apart = np.abs(slices.start_us[last_child[1:]] - slices.start_us[last_child[:-1]])
    together = side_by_side | (
        np.asarray(starts[:-1] > begin[1:])
        & ((slices.end_order[rows] == OPEN)[:-1] | (slices.end_order[rows][:-1] > begin[1:]))
        & _nothing_of_the_same_thread(raw, roles, begin)
        & np.asarray(neither | (both & (apart <= SAME_STAMP_US)))
    )
    name = slices.name[rows]
    fused = np.asarray([name in FUSED for name in raw.names], dtype=bool)[name]
    dtype = dtype_of_args[slices.args[rows]]
    same_dtype = (dtype[1:] == dtype[:-1]) | (dtype[1:] == 0) | (dtype[:-1] == 0)
    together &= fused[1:] & (name[1:] == name[:-1]) & same_dtype
    opens = np.append(True, ~together)
    return Batches(rows, np.cumsum(opens) - 1, np.flatnonzero(opens))


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


@dataclass(frozen=True, slots=True)
class Semantics:
    """A file and what its rows mean; or a part of one that ``quiet`` has cut off.

    Attributes:
        raw: The file, its times on one axis and lost ends restored.
        num_moved: Records whose times no clock shows.
        first_execution: The number of executions in the parts before.
        tensors: Names of tensors.
        roles: What each slice is.
        uses: One row per use of a tensor.
        payloads: Bytes by code of args.
        batches: Which operations were executed together.
        batch: The batch of each slice, ``NONE`` where it has none.
        places: The use of each tick.
        readiness: Who was ready first and last in each use.
        reductions: The uses that reduce gradients.
        collectives: Name of the collective for each name of a negotiation or operation, as the
            file has them; empty for other names.
    """

    raw: RawTimeline
    num_moved: int
    first_execution: int
    tensors: Tensors
    roles: Roles
    uses: Uses
    payloads: Payloads
    batches: Batches
    batch: Int64s
    places: TickPlaces
    readiness: Readiness
    reductions: Reductions
    collectives: tuple[str, ...]

    def collective_of_use(self) -> Int32s:
        """Index into ``raw.names`` of the negotiation or operation that names each use."""
        uses = self.uses
        row = np.where(uses.operation != NONE, uses.operation, uses.negotiation)
        return self.raw.slices.name[row]


def semantics_of(
    raw: RawTimeline, used_before: Int64s | None = None, first_execution: int = 0
) -> Semantics:
    """What a file means, or a part of it.

    Args:
        raw: The file, or a part of it that ``quiet`` has cut off.
        used_before: Uses of each tensor in the parts before; none where not given.
        first_execution: Executions in the parts before.
    """
    raw, num_moved = with_clamped_timestamps(raw)
    raw = on_first_axis(raw)
    tensors = tensors_of(raw)
    roles, uses = roles_and_uses(raw, tensors, used_before)
    raw = _with_restored_ends(raw, roles)
    payloads = payloads_of(raw.args)
    batches = batches_of(raw, roles, payloads.dtype)
    places, readiness = places_of(raw, tensors, roles, uses)
    # The batch of each slice that is an operation or part of one, ``NONE`` for the others.
    of_operation = np.full(len(roles.role) + 1, NONE, dtype=np.int64)
    of_operation[batches.operation] = batches.batch
    return Semantics(
        raw=raw,
        num_moved=num_moved,
        first_execution=first_execution,
        tensors=tensors,
        roles=roles,
        uses=uses,
        payloads=payloads,
        batches=batches,
        batch=of_operation[roles.operation],
        places=places,
        readiness=readiness,
        reductions=_reductions(raw, uses, payloads),
        collectives=collectives_of(raw.names),
    )


def collectives_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """The collective that each name of a slice says, empty where it says none."""
    negotiated = {name.removeprefix(NEGOTIATE) for name in names if name.startswith(NEGOTIATE)}
    named = [name.removeprefix(NEGOTIATE) for name in names]
    return tuple(name if name in negotiated | OPERATIONS else "" for name in named)


def _with_restored_ends(raw: RawTimeline, roles: Roles) -> RawTimeline:
    """Ends that carry dtype and shape given to the operation, where an activity got them.

    Only operations end with these (timeline.cc, ``Timeline::End``): the activity's end is lost.
    """
    slices = raw.slices
    ended = np.flatnonzero((roles.role == ACTIVITY) & (slices.args >= 0))
    ended = ended[roles.operation[ended] != NONE]
    outer = roles.operation[ended]
    lost = slices.end_order[outer] == OPEN
    ended, outer = ended[lost], outer[lost]
    if not len(ended):
        return raw
    end_order, dur_us, args = slices.end_order.copy(), slices.dur_us.copy(), slices.args.copy()
    end_order[outer], end_order[ended] = end_order[ended], OPEN
    dur_us[outer] = slices.start_us[ended] + slices.dur_us[ended] - slices.start_us[outer]
    dur_us[ended] = OPEN
    args[outer], args[ended] = args[ended], -1
    return replace(raw, slices=replace(slices, end_order=end_order, dur_us=dur_us, args=args))


def _reductions(raw: RawTimeline, uses: Uses, payloads: Payloads) -> Reductions:
    slices = raw.slices
    reduces = np.asarray([name in REDUCTIONS for name in raw.names], dtype=bool)
    use = np.flatnonzero(uses.operation != NONE)
    use = use[reduces[slices.name[uses.operation[use]]]]
    operation = uses.operation[use]
    negotiation = uses.negotiation[use]
    row = np.where(negotiation != NONE, negotiation, operation)
    order = np.argsort(slices.begin_order[row], kind="stable")
    use, operation, row = use[order], operation[order], row[order]
    ended = slices.end_order[operation] != OPEN
    length = np.where(ended, slices.dur_us[operation], 0)
    size = payloads.size_bytes[slices.args[operation]] if len(use) else np.empty(0, np.int64)
    return Reductions(
        tensor=uses.tensor[use],
        ready_us=slices.start_us[row],
        end_us=slices.start_us[operation] + length,
        size_bytes=np.where(ended, size, UNKNOWN),
    )


def on_first_axis(raw: RawTimeline) -> RawTimeline:
    """The file with all times on the axis of its first header.

    A file holds several headers where a later process wrote behind an earlier one.
    """
    if len({epoch for _, epoch in raw.epochs}) <= 1:
        return raw
    slices = raw.slices
    ticks, marks = raw.ticks, raw.marks
    return replace(
        raw,
        slices=replace(slices, start_us=slices.start_us + _shifts(raw, stood_at(slices))),
        ticks=replace(ticks, ts_us=ticks.ts_us + _shifts(raw, ticks.order)),
        marks=replace(marks, ts_us=marks.ts_us + _shifts(raw, marks.order)),
    )


def sessions_of(epochs: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """Which of several files share an axis, as groups of their positions.

    Args:
        epochs: ``TimelineFile.epoch_us`` of each file, or ``TIMELINES.epoch_ns``. A file
            without one (Horovod before 0.20.1) is a group of its own: nothing in it says which
            process wrote it.
    """
    groups: dict[object, list[int]] = {}
    for position, epoch in enumerate(epochs):
        groups.setdefault(("alone", position) if epoch is None else epoch, []).append(position)
    return tuple(tuple(group) for group in groups.values())


def _shifts(raw: RawTimeline, order: Int64s) -> Int64s:
    from_order = np.asarray([first for first, _ in raw.epochs], dtype=np.int64)
    epoch = np.asarray([epoch for _, epoch in raw.epochs], dtype=np.int64)
    header = np.maximum(np.searchsorted(from_order, order, side="right") - 1, 0)
    return np.asarray(epoch[header] - epoch[0])
