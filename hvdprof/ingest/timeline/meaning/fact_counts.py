"""What is counted in a timeline file, part by part: ``facts`` and ``notes`` are made of it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hvdprof.ingest.timeline.meaning.activities import CACHED, FUSION_BUFFER
from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.ticks import cycle_starts
from hvdprof.ingest.timeline.meaning.uses import ACTIVITY, ENDED_ALONE, NONE, OPERATION, PHANTOM
from hvdprof.ingest.timeline.syntax.parsed_timeline import LATEST_US, OPEN, ORPHAN, RawTimeline
from hvdprof.model.arrays import Bools, Int32s, Int64s

# Horovod ends these without ever having begun them (operations.cc, PerformOperation).
_ENDS_ALONE = ("barrier.", "join.")

SMALLEST_JUMP_US = 1000
"""Horovod stamps records in their order (timeline.cc, one mutex), so time never falls back."""


@dataclass(frozen=True, slots=True)
class PendingNegotiation:
    """A tensor that some rank has not submitted when the file ends.

    Attributes:
        tensor: Its name.
        collective: What is negotiated.
        start_us: Begin of the negotiation in µs of the file.
        submitted: Ranks with a tick; none where the response cache hides them, and for tensors of
            a process set.
        missing: Ranks that the file names elsewhere, without a tick here; none where no rank has
            one.
    """

    tensor: str
    collective: str
    start_us: int
    submitted: tuple[int, ...]
    missing: tuple[int, ...] = ()


def pending_of(known: Semantics) -> list[PendingNegotiation]:
    """The negotiations that are pending where a part of a file ends, without missing ranks."""
    uses, slices, ticks = known.uses, known.raw.slices, known.raw.ticks
    is_last_use = np.append(uses.tensor[1:] != uses.tensor[:-1], True)[: len(uses)]
    waits = is_last_use & (uses.negotiation != NONE) & (uses.operation == NONE)
    use = np.flatnonzero(waits)
    use = use[slices.end_order[uses.negotiation[use]] == OPEN]
    ranks = {number: ticks.rank[known.places.use == number].tolist() for number in use.tolist()}
    return [
        PendingNegotiation(
            tensor=known.tensors.names[uses.tensor[number]],
            collective=known.collectives[slices.name[uses.negotiation[number]]],
            start_us=int(slices.start_us[uses.negotiation[number]]),
            submitted=tuple(sorted(set(found))),
        )
        for number, found in ranks.items()
    ]


def with_missing_ranks(
    pending: Sequence[PendingNegotiation], named: Collection[int], fewest_ticks: Mapping[str, int]
) -> tuple[PendingNegotiation, ...]:
    """The negotiations with the ranks that have not submitted.

    Ranks of a process set count from 0 within the set, which the file does not name. So a tensor
    that fewer ranks negotiated earlier has no ranks here.

    Args:
        pending: What is pending at the end of the file.
        named: All ranks that the file names.
        fewest_ticks: By tensor, the fewest ranks in an earlier use.
    """
    size = max(named, default=-1) + 1
    found = []
    for negotiation in pending:
        is_of_all = fewest_ticks.get(negotiation.tensor, size) == size
        submitted = negotiation.submitted if is_of_all else ()
        missing = tuple(rank for rank in range(size) if submitted and rank not in submitted)
        found.append(replace(negotiation, submitted=submitted, missing=missing))
    return tuple(found)


@dataclass(slots=True)
class FactCounts:
    """Sums over the parts of a file; ``add`` takes the next part.

    Attributes:
        activities: Activities by name.
        operations: Operations by name.
        uses: Uses by collective.
        used: Tensors with a use, by name.
        num_executions: Executions of one or several tensors.
        num_fused: Those of several.
        num_phantoms: Negotiations without an operation.
        num_marks: Marks of any kind.
        num_moved: Records whose times no clock shows.
        num_alone: Ends without a begin that Horovod would not write so.
        num_open: Slices without an end.
        num_outside: Ticks outside of every negotiation.
        num_again: Executions that made a fusion buffer for a tensor used before.
        num_later: Later uses of tensors that the response cache keeps.
        num_later_ticked: Those with ticks of ranks.
        rounds: The occurrence numbers of these later uses, and of those with ticks.
        ranks: Ranks that are named in a negotiation.
        fewest_ticks: By tensor, the fewest ranks with ticks in a complete use that has any.
        cycle_lengths: How often each distance between marks of cycles came, in µs.
        earliest_us: The earliest time; ``None`` before the first record.
        num_events: Slices with a begin, ticks and marks.
        first_us: The earliest of these; ``None`` before the first one.
        last_us: The latest end of these.
        torus: A tensor's NCCL_ALLREDUCE begins before its NCCL_REDUCESCATTER.
        pending: Negotiations without an end where the part that was taken last ends.
        num_jumps: Places at which the time falls back by ``SMALLEST_JUMP_US`` or more.
        largest_jump_us: The largest of these.
    """

    activities: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    uses: Counter[str] = field(default_factory=Counter)
    used: set[str] = field(default_factory=set)
    num_executions: int = 0
    num_fused: int = 0
    num_phantoms: int = 0
    num_marks: int = 0
    num_moved: int = 0
    num_alone: int = 0
    num_open: int = 0
    num_outside: int = 0
    num_again: int = 0
    num_later: int = 0
    num_later_ticked: int = 0
    rounds: set[int] = field(default_factory=set)
    rounds_ticked: set[int] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    fewest_ticks: dict[str, int] = field(default_factory=dict)
    cycle_lengths: Counter[int] = field(default_factory=Counter)
    earliest_us: int | None = None
    num_events: int = 0
    first_us: int | None = None
    last_us: int = 0
    torus: bool = False
    pending: list[PendingNegotiation] = field(default_factory=list)
    num_jumps: int = 0
    largest_jump_us: int = 0
    _last_cycle_us: int | None = None
    _last_begin_us: int | None = None

    def add(self, known: Semantics) -> None:
        """Count what the next part of the file holds."""
        raw, roles = known.raw, known.roles
        members = np.bincount(known.batches.batch, minlength=1)
        self.activities.update(_counted(raw, roles.role == ACTIVITY))
        self.operations.update(_counted(raw, roles.role == OPERATION))
        self.uses.update(_uses_by_collective(known))
        self.used |= _named(known, np.unique(known.uses.tensor))
        self.num_executions += len(known.batches)
        self.num_fused += int((members > 1).sum())
        self.num_phantoms += int((roles.role == PHANTOM).sum())
        self.num_marks += len(raw.marks)
        self.num_moved += known.num_moved
        self.num_alone += _num_alone(raw)
        self.num_open += int((raw.slices.end_order == OPEN).sum())
        self.num_outside += int((known.places.use == NONE).sum())
        self.num_again += _num_made_again(known)
        self.ranks.update(np.unique(raw.ticks.rank[known.places.use != NONE]).tolist())
        self._add_cycles(cycle_starts(raw.marks, raw.names))
        self.torus = self.torus or _is_torus(known)
        later = _later_cached_uses(known)
        ticked = later[known.readiness.num_ticks[later] > 0]
        self.num_later += len(later)
        self.num_later_ticked += len(ticked)
        self.rounds.update(np.unique(known.uses.occurrence[later]).tolist())
        self.rounds_ticked.update(np.unique(known.uses.occurrence[ticked]).tolist())
        self._add_fewest(known)
        slices, ticks, marks = known.raw.slices, known.raw.ticks, known.raw.marks
        begun = known.roles.role != ENDED_ALONE
        starts = slices.start_us[begun]
        ends = starts + np.maximum(slices.dur_us[begun], 0)
        self.num_events += len(starts) + len(ticks) + len(marks)
        filled = [times for times in (starts, ends, ticks.ts_us, marks.ts_us) if len(times)]
        if filled:
            first = min(int(times.min()) for times in filled)
            last = max(int(times.max()) for times in filled)
            self.last_us = last if self.first_us is None else max(self.last_us, last)
            self.first_us = first if self.first_us is None else min(self.first_us, first)
        self._add_jumps(known)
        self.pending = pending_of(known)
        if raw.range_us is not None:
            earliest = raw.range_us[0]
            before = self.earliest_us
            self.earliest_us = earliest if before is None else min(before, earliest)

    def _add_jumps(self, known: Semantics) -> None:
        starts = known.raw.slices.start_us[known.roles.role != ENDED_ALONE]
        starts = starts[np.abs(starts) < LATEST_US]
        if not len(starts):
            return
        before = [] if self._last_begin_us is None else [self._last_begin_us]
        back = -np.diff(starts, prepend=before)
        back = back[back >= SMALLEST_JUMP_US]
        self.num_jumps += len(back)
        self.largest_jump_us = max(self.largest_jump_us, int(back.max(initial=0)))
        self._last_begin_us = int(starts[-1])

    def _add_cycles(self, starts_us: Int64s) -> None:
        if not len(starts_us):
            return
        before = [] if self._last_cycle_us is None else [self._last_cycle_us]
        lengths, numbers = np.unique(np.diff(starts_us, prepend=before), return_counts=True)
        self.cycle_lengths.update(dict(zip(lengths.tolist(), numbers.tolist(), strict=True)))
        self._last_cycle_us = int(starts_us[-1])

    def _add_fewest(self, known: Semantics) -> None:
        uses, ticks = known.uses, known.readiness.num_ticks
        ticked = (uses.operation != NONE) & (uses.negotiation != NONE) & (ticks > 0)
        tensor, ticks = uses.tensor[ticked], ticks[ticked]
        # Uses stand by tensor.
        first = np.flatnonzero(np.append(True, tensor[1:] != tensor[:-1])[: len(tensor)])
        if not len(first):
            return
        fewest = np.minimum.reduceat(ticks, first).tolist()
        for code, number in zip(tensor[first].tolist(), fewest, strict=True):
            name = known.tensors.names[code]
            self.fewest_ticks[name] = min(number, self.fewest_ticks.get(name, number))


def _named(known: Semantics, tensors: Int32s) -> set[str]:
    return {known.tensors.names[code] for code in tensors.tolist()}


def _counted(raw: RawTimeline, flags: Bools) -> dict[str, int]:
    counts = np.bincount(raw.slices.name[flags], minlength=len(raw.names))
    return {name: int(number) for name, number in zip(raw.names, counts, strict=True) if number > 0}


def _uses_by_collective(known: Semantics) -> dict[str, int]:
    counts: dict[str, int] = {}
    numbers = np.bincount(known.collective_of_use(), minlength=len(known.collectives))
    for name, number in zip(known.collectives, numbers.tolist(), strict=True):
        if number:
            counts[name] = counts.get(name, 0) + number
    return counts


def _later_cached_uses(known: Semantics) -> Int64s:
    if not len(known.uses):
        return np.empty(0, dtype=np.int64)
    cached = np.asarray([name in CACHED for name in known.collectives], dtype=bool)
    later = (known.uses.occurrence > 0) & cached[known.collective_of_use()]
    later = np.flatnonzero(later & (known.uses.negotiation != NONE))
    # A file that is cut off lacks ticks of what is pending.
    ended = known.raw.slices.end_order[known.uses.negotiation[later]] != OPEN
    return np.asarray(later[ended | (known.readiness.num_ticks[later] > 0)])


def _num_made_again(known: Semantics) -> int:
    """Executions that made a fusion buffer for tensors that had been used before."""
    raw, roles = known.raw, known.roles
    is_init = np.asarray([name == FUSION_BUFFER for name in raw.names] + [False], dtype=bool)
    again = is_init[raw.slices.name] & (roles.occurrence > 0) & (known.batch != NONE)
    return len(np.unique(known.batch[again]))


def _is_torus(known: Semantics) -> bool:
    """Whether a tensor's NCCL_ALLREDUCE begins before its NCCL_REDUCESCATTER.

    The torus allreduce emits its cross-node stage first, stamped around the launch alone
    (nccl_operations.cc, NCCLTorusAllreduce).
    """
    raw, roles = known.raw, known.roles
    if not {"NCCL_ALLREDUCE", "NCCL_REDUCESCATTER"} <= set(raw.names):
        return False
    across = _rows_named(known, "NCCL_ALLREDUCE")
    within = _rows_named(known, "NCCL_REDUCESCATTER")
    of_across, of_within = roles.operation[across], roles.operation[within]
    _, at_across, at_within = np.intersect1d(of_across, of_within, return_indices=True)
    return bool(np.any(across[at_across] < within[at_within]))


def _rows_named(known: Semantics, name: str) -> Int64s:
    code = known.raw.names.index(name)
    rows = np.flatnonzero((known.raw.slices.name == code) & (known.roles.role == ACTIVITY))
    return np.asarray(rows[known.roles.operation[rows] != NONE])


def _num_alone(raw: RawTimeline) -> int:
    alone = raw.slices.name == ORPHAN
    expected = np.asarray([name.startswith(_ENDS_ALONE) for name in raw.tensors], dtype=bool)
    return int((~expected[raw.slices.pid[alone]]).sum())
