"""What each slice of a timeline is, and which slices make one use of a tensor.

One use is a negotiation and the operation that follows it with its activities (the states of
Horovod's ``timeline.cc``). Everything is computed over whole columns: a file has millions of rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.timeline.meaning.activities import NEGOTIATE, NEVER_BEGUN, OPERATIONS
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, ORPHAN, RawTimeline, Slices

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Flags = NDArray[np.bool_]
_Value = TypeVar("_Value", bound=np.generic)

NEGOTIATION, OPERATION, ACTIVITY, PHANTOM, ENDED_ALONE = range(5)
"""Roles of slices; ``ENDED_ALONE`` are ends without a begin."""

NONE = -1


@dataclass(frozen=True, slots=True)
class Roles:
    """What each row of ``Slices`` is; all columns as long as that.

    Attributes:
        tensor: Code of the tensor, index into ``Uses.tensor_names``.
        role: One of the roles above.
        use: Row of ``Uses`` it belongs to, ``NONE`` for phantoms and rows before the first use.
        occurrence: How often the tensor was used before.
        operation: Row of the operation that an activity is part of (its own row for operations),
            ``NONE`` where there is none.
    """

    tensor: Int32s
    role: NDArray[np.int8]
    use: Int64s
    occurrence: Int64s
    operation: Int64s


@dataclass(frozen=True, slots=True)
class Uses:
    """One row a use, sorted by tensor and time.

    ``negotiation`` and ``operation`` are rows of ``Slices``, ``NONE`` where the file has none.
    """

    tensor: Int32s
    occurrence: Int64s
    negotiation: Int64s
    operation: Int64s

    def __len__(self) -> int:
        """The number of uses."""
        return len(self.tensor)


@dataclass(frozen=True, slots=True)
class Tensors:
    """Names of tensors, and the code of the tensor for each code of a pid."""

    names: tuple[str, ...]
    of_pid: Int32s


def tensors_of(raw: RawTimeline) -> Tensors:
    """The tensors of a file; one that the file does not name is called after its pid."""
    labels = [name or f"pid {pid}" for name, pid in zip(raw.tensors, raw.pids, strict=True)]
    codes = {name: code for code, name in enumerate(dict.fromkeys(labels))}
    return Tensors(tuple(codes), np.asarray([codes[label] for label in labels], dtype=np.int32))


def by_tensor(tensor: Int32s) -> Int64s:
    """The rows in a stable order by tensor: those of one tensor stay in file order."""
    # Sixteen bits are sorted by radix, in a third of the time.
    narrow = tensor.astype(np.uint16) if len(tensor) and tensor.max() < 2**16 else tensor
    return np.argsort(narrow, kind="stable")


def roles_and_uses(
    raw: RawTimeline, tensors: Tensors, used_before: Int64s | None = None
) -> tuple[Roles, Uses]:
    """Roles of all slices, and the uses.

    A negotiation that no operation follows is a phantom (a joined rank answers for every tensor
    in the cache) if the file shows that its operation did not come: the tensor is negotiated
    again, a join ended after it, or operations and then new negotiations follow. At the very end
    of a recording it is an unfinished use.

    Args:
        raw: A file, or a part of it that ``quiet`` has cut off.
        tensors: Its tensors.
        used_before: Uses of each tensor in the parts before; none where not given.
    """
    slices = raw.slices
    tensor = tensors.of_pid[slices.pid] if len(slices) else np.empty(0, np.int32)
    order = by_tensor(tensor)
    walk = _Walk(slices, raw.names, tensor, order, _last_join(slices, raw.tensors))
    use_of_row = np.cumsum(walk.opens_use) - 1
    before_group = (use_of_row - walk.opens_use)[walk.group_start]
    occurrence = use_of_row - before_group - 1
    if used_before is not None:
        occurrence += used_before[walk.tensor]
    phantom = walk.role == PHANTOM
    in_use = (use_of_row > before_group) & ~phantom & (walk.role != ENDED_ALONE)
    occurrence = np.maximum(np.where(phantom, occurrence + 1, occurrence), 0)
    roles = Roles(
        tensor,
        role=_back(walk.role, order),
        use=_back(np.where(in_use, use_of_row, NONE), order),
        occurrence=_back(occurrence, order),
        operation=_back(np.where(walk.operation >= 0, order[walk.operation], NONE), order),
    )
    first = np.flatnonzero(walk.opens_use)
    num_uses = len(first)
    uses = Uses(
        tensor=walk.tensor[first],
        occurrence=occurrence[first],
        negotiation=_row_of_use(walk.role == NEGOTIATION, use_of_row, order, num_uses),
        operation=_row_of_use(walk.role == OPERATION, use_of_row, order, num_uses),
    )
    return roles, uses


class _Walk:
    """The columns of the slices by tensor, and what follows from what came before each row."""

    def __init__(
        self,
        slices: Slices,
        names: tuple[str, ...],
        tensor: Int32s,
        order: Int64s,
        last_join: int,
    ) -> None:
        self.last_join = last_join
        self.tensor = tensor[order]
        self.begin = slices.begin_order[order]
        self.end = slices.end_order[order]
        self.position = np.arange(len(order), dtype=np.int64)
        name = slices.name[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = self.tensor[1:] != self.tensor[:-1]
        self.group_start = np.maximum.accumulate(np.where(new, self.position, 0))
        negotiation = _flags(names, _is_negotiation)[name]
        # A negotiation whose end got lost holds its operation as if it were an activity.
        latest_negotiation = self.last(negotiation)
        base = self.open_around(latest_negotiation)
        known = _flags(names, OPERATIONS.__contains__) | _negotiated(names)
        operation = known[name] & (slices.depth[order] <= base)
        never_begun = _flags(names, _has_no_operation)[name]
        self.role = np.full(len(order), ACTIVITY, dtype=np.int8)
        self.role[operation] = OPERATION
        self.role[negotiation] = NEGOTIATION
        self.role[name == ORPHAN] = ENDED_ALONE
        base_rows = np.flatnonzero(self.role <= OPERATION)
        self.role[self.phantoms(base_rows, never_begun)] = PHANTOM
        self.opens_use = self.first_of_uses(base_rows)
        outer = self.last(self.role == OPERATION)
        inside = self.open_around(outer) | (outer == self.position)
        inside &= (self.role != ENDED_ALONE) & (outer > latest_negotiation)
        self.operation = np.where(inside, outer, NONE)

    def last(self, flags: Flags) -> Int64s:
        """The last flagged row of the tensor up to each row, ``NONE`` where none is."""
        latest = np.maximum.accumulate(np.where(flags, self.position, NONE))
        return np.where(latest >= self.group_start, latest, NONE)

    def open_around(self, outer: Int64s) -> Flags:
        """Whether each row began after ``outer`` and before its end."""
        end = self.end[outer]
        inside = (outer >= 0) & (outer < self.position) & ((end == OPEN) | (end > self.begin))
        return np.asarray(inside)

    def phantoms(self, base_rows: Int64s, never_begun: Flags) -> Int64s:
        """Negotiations whose operation did not come though it had the time to."""
        role, tensor = self.role[base_rows], self.tensor[base_rows]
        same_tensor = np.append(tensor[1:] == tensor[:-1], False)
        followed = np.append((role[1:] == OPERATION), False) & same_tensor
        ended = self.end[base_rows]
        candidate = (role == NEGOTIATION) & ~followed & (ended != OPEN) & ~never_begun[base_rows]
        disproved = same_tensor | (ended < self.last_cycle_over())
        return np.asarray(base_rows[candidate & disproved])

    def last_cycle_over(self) -> int:
        """Number of the record up to which all operations that were agreed on have begun."""
        negotiations = self.begin[self.role == NEGOTIATION]
        operations = self.begin[self.role == OPERATION]
        newest = negotiations.max(initial=-1)
        in_older_cycles = operations[operations < newest].max(initial=-1)
        return max(int(in_older_cycles), self.last_join)

    def first_of_uses(self, base_rows: Int64s) -> Flags:
        """Whether each row opens a use: an operation right after its negotiation does not."""
        base_rows = base_rows[self.role[base_rows] != PHANTOM]
        role, tensor = self.role[base_rows], self.tensor[base_rows]
        continues = np.zeros(len(base_rows), dtype=bool)
        continues[1:] = (
            (role[1:] == OPERATION) & (role[:-1] == NEGOTIATION) & (tensor[1:] == tensor[:-1])
        )
        opens = np.zeros(len(self.position), dtype=bool)
        opens[base_rows[~continues]] = True
        return opens


def _last_join(slices: Slices, tensor_of_pid: tuple[str, ...]) -> int:
    is_join = np.asarray([name.startswith("join.") for name in tensor_of_pid], dtype=bool)
    alone = slices.name == ORPHAN
    joins = slices.end_order[alone][is_join[slices.pid[alone]]]
    return int(joins.max(initial=-1))


def _back(column: NDArray[_Value], order: Int64s) -> NDArray[_Value]:
    in_file_order = np.empty_like(column)
    in_file_order[order] = column
    return in_file_order


def _row_of_use(flags: Flags, use_of_row: Int64s, order: Int64s, num_uses: int) -> Int64s:
    rows = np.full(num_uses, NONE, dtype=np.int64)
    rows[use_of_row[flags]] = order[flags]
    return rows


def _flags(names: tuple[str, ...], holds: Callable[[str], bool]) -> Flags:
    # One more at the end, for the code ORPHAN (-1).
    return np.asarray([*(holds(name) for name in names), False], dtype=bool)


def _is_negotiation(name: str) -> bool:
    return name.startswith(NEGOTIATE)


def _has_no_operation(name: str) -> bool:
    return name.removeprefix(NEGOTIATE) in NEVER_BEGUN


def _negotiated(names: tuple[str, ...]) -> Flags:
    negotiated = {name.removeprefix(NEGOTIATE) for name in names if _is_negotiation(name)}
    return _flags(names, negotiated.__contains__)
