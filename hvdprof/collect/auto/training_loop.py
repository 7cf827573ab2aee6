"""The loop that trains: where it fetches its batches, and where in it a rank is.

Ranks with unequal numbers of batches hang there: one has ended its loop, the others wait for it in
a step of theirs. By their stacks and phases alone, the rank might as well evaluate between epochs.
"""

import dis
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType

from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP

Place = tuple[int, CodeType, int]
"""The identity of a frame, its code, and the offset of the instruction that it executes.

No frame is kept: it would keep the tensors of its variables alive.
"""


@dataclass(frozen=True, slots=True)
class Fetches:
    """The places in a function at which the loop that trains waits for batches.

    Attributes:
        code: The code of the function.
        iterations: Offsets of the instructions by which ``for`` loops fetch.
        first: Begin of the range in which calls of ``next`` fetch.
        last: Its end, included.
    """

    code: CodeType
    iterations: frozenset[int]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop; ``iteration`` is the offset of FOR_ITER, None of a loop by a condition."""

    header: int
    last: int
    iteration: int | None = None
    is_counter: bool = False

    def holds(self, offset: int) -> bool:
        return self.header <= offset <= self.last


def places_of(frame: FrameType | None) -> list[Place]:
    """What a frame and those that called it execute now, the innermost first."""
    places = []
    while frame is not None:
        places.append((id(frame), frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return places


def fetches_of(backward: Sequence[Place], update: Sequence[Place]) -> Fetches | None:
    """Where the innermost loop around a backward pass and its update fetches; None without one.

    Of loops within it, those around the backward pass count, too: they fetch micro-batches. A loop
    over ``range`` counts and fetches nothing by itself.
    """
    before = {(identity, code): offset for identity, code, offset in backward}
    for identity, code, after in update:
        offset = before.get((identity, code))
        if offset is None:
            continue
        around = [loop for loop in _loops_of(code) if loop.holds(offset)]
        common = [loop for loop in around if loop.holds(after)]
        if not common:
            continue
        # Of two loops around one place, one holds the other.
        innermost = max(common, key=lambda loop: loop.header)
        fetching = [
            loop
            for loop in around
            if loop.iteration is not None and not loop.is_counter and innermost.holds(loop.header)
        ]
        return Fetches(
            code,
            frozenset(loop.iteration for loop in fetching if loop.iteration is not None),
            innermost.header,
            innermost.last,
        )
    return None


def _loops_of(code: CodeType) -> Iterator[_Loop]:
    instructions = list(dis.get_instructions(code))
    ends: dict[int, int] = {}
    for instruction in instructions:
        target = _target(instruction)
        if target is not None and target <= instruction.offset:
            ends[target] = max(ends.get(target, 0), instruction.offset)
    header = 0
    for number, instruction in enumerate(instructions):
        if number == 0 or instructions[number - 1].opname != "EXTENDED_ARG":
            header = instruction.offset
        if header not in ends or instruction.opname == "EXTENDED_ARG":
            continue
        if instruction.opname == "FOR_ITER":
            # What leaves the loop early, as by `break`, lies behind its last jump back.
            last = max(ends[header], instruction.argval - 1)
            yield _Loop(header, last, instruction.offset, _is_counter(instructions[:number]))
        else:
            yield _Loop(header, ends[header])


def _target(one: dis.Instruction) -> int | None:
    if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
        return int(one.argval)
    return None


def _is_counter(before: Sequence[dis.Instruction]) -> bool:
    """Whether instructions in front of a loop end with ``range(...)``."""
    if len(before) < 2 or before[-1].opname != "GET_ITER":
        return False
    begin = _begin_of(before[-2])
    names = [
        instruction.argval
        for instruction in before
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and _begin_of(instruction) == begin
    ]
    return begin is not None and names[-1:] == ["range"]


def _begin_of(one: dis.Instruction) -> tuple[int, int] | None:
    """Line and column at which the expression of an instruction begins."""
    where = one.positions
    if where is None or where.lineno is None or where.col_offset is None:
        return None
    return where.lineno, where.col_offset


class LoopProgress:
    """Counts the epochs of a rank, by the iterators that its training exhausts."""

    def __init__(self) -> None:
        self.num_epochs = 0
        self._fetched_from: weakref.ref[object] | None = None
        self._trained_from: weakref.ref[object] | None = None

    def fetched(self, iterator: object) -> None:
        """A batch has come from an iterator of a data loader."""
        self._fetched_from = weakref.ref(iterator)

    def updates(self) -> None:
        """An update begins: the iterator of the last batch is that of the training."""
        self._trained_from = self._fetched_from

    def exhausted(self, iterator: object) -> None:
        """An iterator has no more batches."""
        if self._trained_from is not None and self._trained_from() is iterator:
            self.num_epochs += 1
            self._fetched_from = self._trained_from = None


def loop_place(loop: Fetches | None, thread: int, error: BaseException | None) -> str:
    """``IN_LOOP`` or ``LEFT_LOOP``; empty where the loop is unknown. For any thread."""
    if loop is None:
        return ""
    if error is not None:
        places = _places_of_error(error.__traceback__)
    else:
        places = _places_of(sys._current_frames().get(thread))
    is_inside = any(
        code is loop.code and loop.first <= offset <= loop.last for code, offset in places
    )
    return IN_LOOP if is_inside else LEFT_LOOP


def _places_of(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _places_of_error(traceback: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next
