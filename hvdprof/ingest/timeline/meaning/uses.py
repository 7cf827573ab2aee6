"""What each slice of a timeline is, and which slices make one use of a tensor.

One use is a negotiation and the operation that follows it with its activities (the states of
Horovod's ``timeline.cc``). Everything is computed over whole columns: a file has millions of rows.
"""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.machine_code import NotCompiledError, compiled, has_numba
from hvdprof.ingest.timeline.meaning.activities import NEGOTIATE, NEVER_BEGUN, OPERATIONS
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, ORPHAN, RawTimeline, Slices
from hvdprof.model.arrays import Bools, Column, Int8s, Int32s, Int64s

NEGOTIATION, OPERATION, ACTIVITY, PHANTOM, ENDED_ALONE = range(5)
"""Roles of slices; ``ENDED_ALONE`` are ends without a begin."""

NONE = -1

MANY_ROWS = 20_000
"""So many rows are worth starting compiled code."""

ENOUGH_ROWS = 2000
"""So many are worth it where compiled code runs already."""

Columns = tuple[Column, ...]
Loop = Callable[[Any, Any], None]
"""Takes a tuple of columns to read, and one of columns to fill: of arrays, or of lists."""


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
        first_activity: For operations the row of their first activity, ``NONE`` without any.
        last_activity: For operations the row of their last activity.
    """

    tensor: Int32s
    role: Int8s
    use: Int64s
    occurrence: Int64s
    operation: Int64s
    first_activity: Int64s
    last_activity: Int64s


@dataclass(frozen=True, slots=True)
class Uses:
    """One row per use, sorted by tensor and time.

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
    num_rows, num_tensors = len(slices), len(tensors.names)
    role = np.zeros(num_rows, np.int8)
    num_uses = np.zeros(num_tensors, np.int64)
    flags = (
        _flags(raw.names, _is_negotiation),
        _flags(raw.names, OPERATIONS.__contains__) | _negotiated(raw.names),
        _flags(raw.names, _has_no_operation),
    )
    base, older = of_none(num_tensors), of_none(1)
    order = (slices.begin_order, slices.end_order)
    run_loop(
        _find_roles,
        (tensor, slices.name, slices.depth, *order, *flags),
        (role, num_uses, of_none(num_tensors), base, older),
    )
    # Up to this record all operations that were agreed on have begun.
    over = max(int(older[0]), _last_join(slices, raw.tensors))
    last = base[base != NONE]
    ended = (slices.end_order[last] != OPEN) & (slices.end_order[last] < over)
    late = last[ended & (role[last] == NEGOTIATION) & ~flags[2][slices.name[last]]]
    role[late] = PHANTOM
    num_uses[tensor[late]] -= 1
    first_use = np.cumsum(num_uses) - num_uses
    if used_before is None:
        used_before = np.zeros(num_tensors, np.int64)
    total = int(num_uses.sum())
    uses = Uses(np.zeros(total, np.int32), *(of_none(total) for _ in range(3)))
    roles = Roles(tensor, role, *(of_none(num_rows) for _ in range(5)))
    run_loop(
        _number_uses,
        (tensor, role, *order, first_use, used_before),
        (
            *(roles.use, roles.occurrence, roles.operation),
            *(roles.first_activity, roles.last_activity),
            *(uses.tensor, uses.occurrence, uses.negotiation, uses.operation),
            *(np.zeros(num_tensors, np.int64), np.zeros(num_tensors, np.int64)),
            *(of_none(num_tensors), of_none(num_tensors)),
        ),
    )
    return roles, uses


def of_none(length: int) -> Int64s:
    """So many places that name nothing."""
    return np.full(length, NONE, dtype=np.int64)


def _find_roles(inputs: Any, outputs: Any) -> None:
    """The role of each slice and the number of uses of each tensor.

    Phantoms that only the end of the file shows are not found here.

    ``latest`` is the last negotiation by tensor, ``base`` the last negotiation or operation, and
    ``older`` the last operation before the last negotiation of all.
    """
    tensor, name, depth, begin, end, negotiates, known, never_begun = inputs
    role, num_uses, latest, base, older = outputs
    newest_operation, older_cycles = -1, -1
    for row in range(len(tensor)):
        of, code = tensor[row], name[row]
        if negotiates[code]:
            kind = NEGOTIATION
            latest[of] = row
            older_cycles = newest_operation
        elif code == ORPHAN:
            kind = ENDED_ALONE
        else:
            # A negotiation whose end got lost holds its operation as if it were an activity.
            around = latest[of]
            is_inside = around >= 0 and (end[around] == OPEN or end[around] > begin[row])
            kind = OPERATION if known[code] and depth[row] <= int(is_inside) else ACTIVITY
            if kind == OPERATION:
                newest_operation = begin[row]
        role[row] = kind
        if kind <= OPERATION:
            before = base[of]
            base[of] = row
            follows = before >= 0 and role[before] == NEGOTIATION
            if follows and kind == OPERATION:
                continue
            num_uses[of] += 1
            if follows and end[before] != OPEN and not never_begun[name[before]]:
                role[before] = PHANTOM
                num_uses[of] -= 1
    older[0] = older_cycles


def _number_uses(inputs: Any, outputs: Any) -> None:
    """The use and the operation of each slice.

    By tensor, ``count`` is the number of uses so far, ``waits`` whether a negotiation waits for its
    operation, ``latest`` the last negotiation or phantom, and ``outer`` the last operation.
    """
    tensor, role, begin, end, first_use, used_before = inputs
    use, occurrence, operation, first_activity, last_activity = outputs[:5]
    use_tensor, use_occurrence, use_negotiation, use_operation = outputs[5:9]
    count, waits, latest, outer = outputs[9:]
    for row in range(len(tensor)):
        of, kind = tensor[row], role[row]
        opens = kind == NEGOTIATION or (kind == OPERATION and not waits[of])
        if opens:
            count[of] += 1
        number = first_use[of] + count[of] - 1
        before = used_before[of] + count[of] - 1
        occurrence[row] = max(before + 1 if kind == PHANTOM else before, 0)
        if opens:
            use_tensor[number] = of
            use_occurrence[number] = occurrence[row]
        if kind in (NEGOTIATION, PHANTOM):
            latest[of] = row
        if kind == NEGOTIATION:
            use_negotiation[number] = row
            waits[of] = 1
        elif kind == OPERATION:
            use_operation[number] = row
            waits[of] = 0
            outer[of] = row
            operation[row] = row
        if count[of] > 0 and kind != PHANTOM and kind != ENDED_ALONE:
            use[row] = number
        around = outer[of]
        is_inside = around > latest[of] and (end[around] == OPEN or end[around] > begin[row])
        if kind == ACTIVITY and is_inside:
            operation[row] = around
            last_activity[around] = row
            if first_activity[around] == NONE:
                first_activity[around] = row


def _last_join(slices: Slices, tensor_of_pid: tuple[str, ...]) -> int:
    is_join = np.asarray([name.startswith("join.") for name in tensor_of_pid], dtype=bool)
    alone = slices.name == ORPHAN
    joins = slices.end_order[alone][is_join[slices.pid[alone]]]
    return int(joins.max(initial=-1))


def _flags(names: tuple[str, ...], holds: Callable[[str], bool]) -> Bools:
    # One more at the end, for the code ORPHAN (-1).
    return np.asarray([*(holds(name) for name in names), False], dtype=bool)


def _is_negotiation(name: str) -> bool:
    return name.startswith(NEGOTIATE)


def _has_no_operation(name: str) -> bool:
    return name.removeprefix(NEGOTIATE) in NEVER_BEGUN


def _negotiated(names: tuple[str, ...]) -> Bools:
    negotiated = {name.removeprefix(NEGOTIATE) for name in names if _is_negotiation(name)}
    return _flags(names, negotiated.__contains__)


def run_loop(loop: Loop, inputs: Columns, outputs: Columns) -> None:
    """Run a loop, compiled if the first of its inputs has many rows."""
    enough = ENOUGH_ROWS if "llvmlite.binding" in sys.modules else MANY_ROWS
    if len(inputs[0]) >= enough and has_numba():
        with contextlib.suppress(NotCompiledError):
            compiled(loop)(inputs, outputs)
            return
    # Python takes items from lists several times as fast as from arrays.
    lists = tuple(column.tolist() for column in outputs)
    loop(tuple(column.tolist() for column in inputs), lists)
    for column, values in zip(outputs, lists, strict=True):
        column[:] = values
