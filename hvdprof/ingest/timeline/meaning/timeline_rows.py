"""What is understood of a file as columns in µs of the file, ready for the declared tables."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.ingest.timeline.meaning.activities import INIT, PARTS, UNKNOWN, part_of
from hvdprof.ingest.timeline.meaning.semantics import Semantics
from hvdprof.ingest.timeline.meaning.ticks import Cycle, distinct_ranks
from hvdprof.ingest.timeline.meaning.uses import ACTIVITY, ENDED_ALONE, NONE, OPERATION
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, ORPHAN
from hvdprof.model.arrays import Bools, Column, Int32s, Int64s

Nullable = pd.arrays.IntegerArray

_PHASES = ("negotiation", "operation", "activity", "phantom", "mark")
_MARK = 4


@dataclass(frozen=True, slots=True)
class EventRows:
    """Slices, ticks and marks in file order; ``dur_us`` is -1 where the end is missing."""

    phase: pd.Categorical
    activity: pd.Categorical
    collective: pd.Categorical
    tensor: pd.Categorical
    occurrence: Int64s
    fusion_id: Int64s
    start_us: Int64s
    dur_us: Int64s
    size_bytes: Nullable
    rank: Int64s

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.start_us)


@dataclass(frozen=True, slots=True)
class UseRows:
    """The uses in the order of their begin; times in µs of the file, missing where unknown.

    ``with_ties`` takes away the first and the last ranks that came too close to the next one.
    """

    tensor: pd.Categorical
    occurrence: Int64s
    collective: pd.Categorical
    fusion_id: Int64s
    negotiation_start_us: Nullable
    negotiation_us: Nullable
    start_us: Nullable
    dur_us: Nullable
    size_bytes: Nullable
    dtype: pd.Categorical
    num_ticks: Int64s
    first_rank: Nullable
    first_before_us: Nullable
    last_rank: Nullable
    last_after_us: Nullable
    warmup: Bools
    begin_us: Int64s

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.occurrence)

    def with_ties(self, cycle: Cycle) -> "UseRows":
        """The uses without the ranks that a cycle of Horovod's loop does not separate."""
        return replace(
            self,
            first_rank=_distinct(self.first_rank, self.first_before_us, cycle),
            last_rank=_distinct(self.last_rank, self.last_after_us, cycle),
        )


@dataclass(frozen=True, slots=True)
class ExecutionRows:
    """The executions in the order of their begin; ``part_us`` has a column for each of PARTS."""

    fusion_id: Int64s
    collective: pd.Categorical
    num_tensors: Int64s
    size_bytes: Nullable
    start_us: Int64s
    dur_us: Nullable
    part_us: Int64s
    warmup: Bools

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.start_us)


def event_rows(known: Semantics) -> EventRows:
    """Every slice that has a begin, every tick and every mark."""
    raw, roles = known.raw, known.roles
    slices, ticks, marks = raw.slices, raw.ticks, raw.marks
    begun = np.flatnonzero(roles.role != ENDED_ALONE)
    order = np.concatenate([slices.begin_order[begun], ticks.order, marks.order])
    place = np.argsort(order, kind="stable")
    nothing, no_marks = np.zeros(len(ticks), np.int64), np.zeros(len(marks), np.int64)

    def column(of_slices: Column, of_ticks: Column, of_marks: Column) -> Int64s:
        return np.concatenate([of_slices[begun], of_ticks, of_marks])[place]

    use = known.places.use
    is_operation = roles.role == OPERATION
    ranks, rank_codes = np.unique(ticks.rank, return_inverse=True)
    labels = _Labels([*raw.names, *map(str, ranks.tolist())])
    collectives = _Labels(["", *known.collectives])
    tensors = _Labels(["", *known.tensors.names])
    has_use = use != NONE
    occurrence = known.uses.occurrence[use] if len(known.uses) else nothing
    return EventRows(
        phase=_Labels(_PHASES).column(
            column(roles.role, nothing + _MARK, no_marks + _MARK).astype(np.int8)
        ),
        activity=labels.column(column(slices.name, rank_codes + len(raw.names), marks.name)),
        collective=collectives.column(
            column(_named_by(known) + 1, _named_by_use(known)[use] + 1, no_marks)
        ),
        tensor=tensors.column(column(roles.tensor + 1, known.places.tensor + 1, no_marks)),
        occurrence=column(roles.occurrence, np.where(has_use, occurrence, 0), no_marks),
        fusion_id=column(_fusion_ids(known, known.batch), nothing + NONE, no_marks + NONE),
        start_us=column(slices.start_us, ticks.ts_us, marks.ts_us),
        dur_us=column(np.where(slices.end_order == OPEN, -1, slices.dur_us), nothing, no_marks),
        size_bytes=_present(
            column(
                np.where(is_operation, known.payloads.size_bytes[slices.args], UNKNOWN),
                nothing + UNKNOWN,
                no_marks + UNKNOWN,
            )
        ),
        rank=column(np.zeros(len(slices), np.int64), ticks.rank.astype(np.int64), no_marks),
    )


def use_rows(known: Semantics) -> UseRows:
    """Every use of a tensor."""
    slices, uses, ready = known.raw.slices, known.uses, known.readiness
    first = np.where(uses.negotiation != NONE, uses.negotiation, uses.operation)
    place = np.argsort(slices.begin_order[first], kind="stable")
    negotiation, operation = uses.negotiation[place], uses.operation[place]
    negotiated, executed = negotiation != NONE, operation != NONE
    args = np.where(executed, slices.args[operation], -1)
    return UseRows(
        tensor=_Labels(known.tensors.names).column(uses.tensor[place]),
        occurrence=uses.occurrence[place],
        collective=_Labels(known.collectives).column(known.collective_of_use()[place]),
        fusion_id=_fusion_ids(known, np.where(executed, known.batch[operation], NONE)),
        negotiation_start_us=_masked(slices.start_us[negotiation], ~negotiated),
        negotiation_us=_lengths(known, negotiation),
        start_us=_masked(slices.start_us[operation], ~executed),
        dur_us=_lengths(known, operation),
        size_bytes=_present(known.payloads.size_bytes[args]),
        dtype=_Labels(known.payloads.dtypes).column(known.payloads.dtype[args]),
        num_ticks=ready.num_ticks[place],
        first_rank=_present(ready.first_rank[place]),
        first_before_us=_present(ready.first_before_us[place]),
        last_rank=_present(ready.last_rank[place]),
        last_after_us=_present(ready.last_after_us[place]),
        warmup=warmup_of_uses(known)[place],
        begin_us=slices.start_us[first[place]],
    )


def execution_rows(known: Semantics) -> ExecutionRows:
    """Every execution, its members summed; the parts are those of its first member."""
    slices, batches = known.raw.slices, known.batches
    members, first = batches.operation, batches.first
    if not len(batches):
        nothing = np.empty(0, dtype=np.int64)
        return ExecutionRows(
            nothing,
            _Labels(known.collectives).column(nothing),
            *(nothing, _present(nothing), nothing, _present(nothing)),
            part_us=nothing.reshape(0, len(PARTS)),
            warmup=nothing.astype(bool),
        )
    start = slices.start_us[members]
    end = np.maximum.reduceat(start + slices.dur_us[members], first)
    is_open = np.logical_or.reduceat(slices.end_order[members] == OPEN, first)
    size = known.payloads.size_bytes[slices.args[members]]
    unknown = np.minimum.reduceat(size, first) == UNKNOWN
    warm_uses = warmup_of_uses(known)[known.roles.use[members]]
    return ExecutionRows(
        fusion_id=_fusion_ids(known, np.arange(len(batches))),
        collective=_Labels(known.collectives).column(slices.name[members[first]]),
        num_tensors=np.diff(np.append(first, len(members))),
        size_bytes=_masked(np.add.reduceat(size, first), unknown),
        start_us=start[first],
        dur_us=_masked(end - start[first], is_open),
        part_us=_part_lengths(known),
        warmup=np.logical_or.reduceat(warm_uses, first),
    )


def _fusion_ids(known: Semantics, batch: Int64s) -> Int64s:
    """The number of each execution in the whole file; ``NONE`` where there is no execution."""
    return np.where(batch != NONE, batch + known.first_execution, NONE)


def warmup_of_uses(known: Semantics) -> Bools:
    """Whether each use is a first one, a broadcast, or executed with an ``INIT_`` activity."""
    uses = known.uses
    broadcasts = np.asarray([name == "BROADCAST" for name in known.collectives], dtype=bool)
    starting = _initialising(known)
    warmup = uses.occurrence == 0
    if len(uses):
        warmup |= broadcasts[known.collective_of_use()]
        batch = known.batch[uses.operation]
        executed = (uses.operation != NONE) & (batch != NONE)
        warmup |= executed & starting[np.where(executed, batch, -1)]
    return np.asarray(warmup)


def _initialising(known: Semantics) -> Bools:
    """Whether each batch initialises something; one more row, for rows without a batch."""
    slices = known.raw.slices
    inits = np.asarray([name.startswith(INIT) for name in known.raw.names] + [False], dtype=bool)
    found = np.zeros(len(known.batches) + 1, dtype=bool)
    found[known.batch[inits[slices.name]]] = True
    found[-1] = False
    return found


def _part_lengths(known: Semantics) -> Int64s:
    slices, batches, roles = known.raw.slices, known.batches, known.roles
    is_first = np.zeros(len(slices) + 1, dtype=bool)
    is_first[batches.operation[batches.first]] = True
    rows = np.flatnonzero(is_first[roles.operation] & (roles.role != OPERATION))
    direct = slices.depth[rows] == slices.depth[roles.operation[rows]] + 1
    rows = rows[direct & (slices.end_order[rows] != OPEN)]
    part = np.asarray([PARTS.index(part_of(name)) for name in known.raw.names] or [0])
    cell = known.batch[rows] * len(PARTS) + part[slices.name[rows]]
    sums = np.zeros(len(batches) * len(PARTS), dtype=np.int64)
    np.add.at(sums, cell, slices.dur_us[rows])
    return sums.reshape(-1, len(PARTS))


def _named_by(known: Semantics) -> Int32s:
    """Index into names of what says the collective of each slice; ``NONE`` where nothing does."""
    roles, name = known.roles, known.raw.slices.name
    of_operation = np.where(roles.operation != NONE, name[roles.operation], NONE)
    itself = (roles.role != ACTIVITY) & (name != ORPHAN)
    return np.where(itself, name, of_operation)


def _named_by_use(known: Semantics) -> Int32s:
    return np.append(known.collective_of_use(), NONE).astype(np.int32)


def _lengths(known: Semantics, rows: Int64s) -> Nullable:
    slices = known.raw.slices
    return _masked(slices.dur_us[rows], (rows == NONE) | (slices.end_order[rows] == OPEN))


def _distinct(rank: Nullable, apart_us: Nullable, cycle: Cycle) -> Nullable:
    ranks, apart = (column.to_numpy(np.int64, na_value=NONE) for column in (rank, apart_us))
    return _present(distinct_ranks(ranks, apart, cycle))


def _present(values: Int64s) -> Nullable:
    """Numbers with those that stand for unknown missing."""
    return _masked(values, values == NONE)


def _masked(values: Int64s, missing: Bools) -> Nullable:
    return pd.arrays.IntegerArray(np.asarray(values, dtype=np.int64), np.asarray(missing))


class _Labels:
    """Names by code, some perhaps twice, as the categories of a column."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.categories, self.code = _categories(tuple(labels))

    def column(self, codes: Column) -> pd.Categorical:
        values = self.code[codes] if len(self.code) else np.asarray(codes, dtype=np.int32)
        return pd.Categorical.from_codes(values, dtype=self.categories)


@functools.lru_cache(maxsize=16)
def _categories(labels: tuple[str, ...]) -> tuple[pd.CategoricalDtype, Int32s]:
    """Different names as a dtype, and the code of each label; parts of a file have the same."""
    unique = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    categories = pd.CategoricalDtype(pd.Index(list(unique), dtype=str))
    return categories, np.asarray([unique[label] for label in labels], dtype=np.int32)
