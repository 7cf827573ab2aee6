"""A pickle of plain values, read without loading any class.

A pickle can name any function to be called while it is read. A dump of the Flight Recorder holds
dictionaries, lists, tuples, texts and numbers alone. So every opcode is checked before anything is
built, with bounds on number and memo; the unpickler refuses each class on its own; and what was
built is refused where it is nested deeply.
"""

import io
import pickle
import re
from itertools import chain
from typing import NoReturn

MOST_CONTAINERS = 20_000_000
DEEPEST = 32

_STOP = b"."
_CONTAINERS = (b"}", b"]", b")", b"t", b"\x85", b"\x86", b"\x87")
# Runs of opcodes whose operands have a fixed length: N, booleans, numbers, containers, marks,
# memo places (below 4 million: 64 MB), short integers, protocol and frame. Bounded, because a
# pattern remembers each turn.
_FIXED = re.compile(
    rb"(?:[N\x88\x89}\])(taseu\x85\x86\x87\x94]++"
    rb"|[Kqh\x80].|M.{2}|[Jj].{4}|[G\x95].{8}|r.{2}[\x00-\x3f]\x00"
    rb"|\x8a(?:\x00|\x01.|\x02.{2}|\x03.{3}|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8})"
    rb"){1,10000}+",
    re.DOTALL,
)
# Texts and integers, by the bytes of their length.
_LENGTHS = {b"X": 4, b"\x8c": 1, b"\x8d": 8, b"\x8a": 1}
_FAR_PUT = b"r"
# GLOBAL, STACK_GLOBAL, INST, OBJ, NEWOBJ, NEWOBJ_EX, REDUCE, BUILD, and the codes of extensions.
_CALLS = (b"c", b"\x93", b"i", b"o", b"\x81", b"\x92", b"R", b"b", b"\x82", b"\x83", b"\x84")
_OUTSIDE = (b"P", b"Q")
# Nothing matches these where their operand is cut off.
_WITH_OPERAND = tuple(bytes([code]) for code in b"Kqhr\x80MJjG\x95")
_NESTS = (dict, list, tuple)


class RefusedPickleError(ValueError):
    """The pickle is torn, or holds more than plain values."""


def load_plain(data: bytes) -> object:
    """The value of a pickle that holds nothing but plain values.

    Raises:
        RefusedPickleError: It is torn, names a class or a call, or exceeds a bound.
    """
    _check(data)
    try:
        value: object = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, ValueError, LookupError, EOFError, TypeError) as error:
        raise RefusedPickleError(f"is no valid pickle ({error})") from error
    except AttributeError as error:
        raise RefusedPickleError("is no valid pickle (it appends to no list)") from error
    _check_depth(value)
    return value


class _PlainUnpickler(pickle.Unpickler):
    """The second barrier: the check lets no such opcode through."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise RefusedPickleError(f"names the class {module_name}.{global_name}")

    def persistent_load(self, pid: object, /) -> NoReturn:
        raise RefusedPickleError("refers to an object outside the file")


def _check(data: bytes) -> None:
    """Step over all opcodes up to the end, and refuse what a dump does not hold."""
    # A container takes a byte: a short pickle needs no count.
    is_counted = len(data) > MOST_CONTAINERS
    at = num_containers = 0
    while code := data[at : at + 1]:
        if width := _LENGTHS.get(code):
            operand = at + 1 + width
            at = operand + int.from_bytes(data[at + 1 : operand], "little")
        elif run := _FIXED.match(data, at):
            if is_counted:
                # Bytes of operands count as well: few, as most are places and zeros.
                num_containers += sum(
                    data.count(container, at, run.end()) for container in _CONTAINERS
                )
            if num_containers > MOST_CONTAINERS:
                raise RefusedPickleError(f"holds more than {MOST_CONTAINERS:,} containers")
            at = run.end()
        elif code == _STOP:
            return
        elif code == _FAR_PUT and at + 4 < len(data):
            place = int.from_bytes(data[at + 1 : at + 5], "little")
            # Unpickling allocates a memo as long as the largest place.
            if place > at:
                raise RefusedPickleError(f"has a memo of {place:,} places")
            at += 5
        elif code in _WITH_OPERAND:
            break
        else:
            raise RefusedPickleError(f"{_what_it_holds(code)} (byte {at})")
    raise RefusedPickleError("ends in the middle")


def _what_it_holds(code: bytes) -> str:
    if code in _CALLS:
        return "would call a function or class when loaded"
    if code in _OUTSIDE:
        return "refers to an object outside the file"
    return "holds more than plain values"


def _check_depth(value: object) -> None:
    """Refuse what is nested deeply, or holds itself."""
    level = [value]
    for _ in range(DEEPEST):
        inner = chain.from_iterable(
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, _NESTS)
        )
        # Once each: a value that is shared again at each level would double with it.
        level = list({id(item): item for item in inner if isinstance(item, _NESTS)}.values())
        if not level:
            return
    raise RefusedPickleError(f"is nested more than {DEEPEST} deep")
