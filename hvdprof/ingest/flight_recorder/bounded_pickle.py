"""A pickle of plain values, read without loading any class.

A pickle can name any function to be called while it is read. A dump of the Flight Recorder holds
dictionaries, lists, tuples, texts and numbers alone. So every opcode is checked before anything is
built, with bounds on number, nesting and memo; and the unpickler refuses each class on its own.
"""

import io
import pickle
from collections.abc import Callable
from typing import NoReturn

MOST_OPCODES = 20_000_000
DEEPEST = 32

_MARK, _STOP, _MEMOIZE = b"(", b".", b"\x94"
# Bytes of the operand behind each opcode that pushes a plain value.
_VALUES = {
    b"N": 0, b"\x88": 0, b"\x89": 0, b"K": 1, b"M": 2, b"J": 4, b"G": 8,
}  # fmt: skip
_LENGTHS = {b"X": 4, b"\x8c": 1, b"\x8d": 8, b"\x8a": 1}
_EMPTY = (b"}", b"]", b")")
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_PUTS = {b"q": 1, b"r": 4}
_GETS = {b"h": 1, b"j": 4}
_NO_EFFECT = {b"\x80": 1, b"\x95": 8}


class RefusedPickleError(ValueError):
    """The pickle is torn, or holds more than plain values."""


def load_plain(data: bytes) -> object:
    """The value of a pickle that holds nothing but plain values.

    Args:
        data: The whole pickle.

    Raises:
        RefusedPickleError: It is torn, names a class or a call, or exceeds a bound.
    """
    _Checked(data).check()
    try:
        value: object = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, ValueError, EOFError, IndexError, TypeError) as error:
        raise RefusedPickleError(f"is no valid pickle ({error})") from error
    return value


class _PlainUnpickler(pickle.Unpickler):
    """The second barrier: the check lets no such opcode through."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise RefusedPickleError(f"names the class {module_name}.{global_name}")

    def persistent_load(self, pid: object, /) -> NoReturn:
        raise RefusedPickleError("refers to an object outside the file")


class _Checked:
    """Steps through the opcodes with a stack that holds how deep each value is nested."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[int] = []
        self._marks: list[int] = []
        self._memo: dict[int, int] = {}
        handlers: dict[bytes, Callable[[], None]] = {
            _MARK: lambda: self._marks.append(len(self._stack)),
            _MEMOIZE: lambda: self._put(len(self._memo)),
            b"t": self._tuple_of_mark,
            b"a": lambda: self._into_container(1),
            b"s": lambda: self._into_container(2),
            b"e": self._into_container_of_mark,
            b"u": self._into_container_of_mark,
        }
        for code, width in _VALUES.items():
            handlers[code] = lambda width=width: self._value(width)  # type: ignore[misc]
        for code, width in _LENGTHS.items():
            handlers[code] = lambda width=width: self._value(self._number(width))  # type: ignore[misc]
        for code in _EMPTY:
            handlers[code] = lambda: self._stack.append(1)
        for code, number in _TUPLES.items():
            handlers[code] = lambda number=number: self._tuple(number)  # type: ignore[misc]
        for code, width in _PUTS.items():
            handlers[code] = lambda width=width: self._put(self._number(width))  # type: ignore[misc]
        for code, width in _GETS.items():
            handlers[code] = lambda width=width: self._get(self._number(width))  # type: ignore[misc]
        for code, width in _NO_EFFECT.items():
            handlers[code] = lambda width=width: self._skip(width)  # type: ignore[misc]
        self._handlers = handlers

    def check(self) -> None:
        """Go to the end of the pickle.

        Raises:
            RefusedPickleError: Something is in it that a dump does not hold.
        """
        data, handlers = self._data, self._handlers
        try:
            for _ in range(MOST_OPCODES):
                code = data[self._at : self._at + 1]
                self._at += 1
                if code == _STOP:
                    return
                if not code:
                    raise RefusedPickleError("ends in the middle")
                handle = handlers.get(code)
                if handle is None:
                    raise RefusedPickleError(
                        f"holds more than plain values (opcode {code!r} at byte {self._at - 1})"
                    )
                handle()
        except (IndexError, KeyError, ValueError) as error:
            if isinstance(error, RefusedPickleError):
                raise
            raise RefusedPickleError(f"is no valid pickle (byte {self._at - 1})") from error
        raise RefusedPickleError(f"has more than {MOST_OPCODES:,} opcodes")

    def _number(self, width: int) -> int:
        self._skip(width)
        return int.from_bytes(self._data[self._at - width : self._at], "little")

    def _skip(self, width: int) -> None:
        self._at += width
        if self._at > len(self._data):
            raise RefusedPickleError("ends in the middle")

    def _value(self, width: int) -> None:
        self._skip(width)
        self._stack.append(0)

    def _tuple(self, number: int) -> None:
        if len(self._stack) < number:
            raise IndexError
        self._push(1 + max(self._stack[-number:]), number)

    def _tuple_of_mark(self) -> None:
        items = self._stack[self._marks[-1] :]
        self._push(1 + max(items, default=0), len(items))
        self._marks.pop()

    def _push(self, depth: int, number_popped: int) -> None:
        if depth > DEEPEST:
            raise RefusedPickleError(f"is nested more than {DEEPEST} deep")
        del self._stack[len(self._stack) - number_popped :]
        self._stack.append(depth)

    def _into_container(self, number: int) -> None:
        if len(self._stack) <= number:
            raise IndexError
        depth = 1 + max(self._stack[-number:])
        self._push(max(depth, self._stack[-number - 1]), number + 1)

    def _into_container_of_mark(self) -> None:
        number = len(self._stack) - self._marks.pop()
        if number:
            self._into_container(number)

    def _put(self, place: int) -> None:
        # Unpickling allocates a memo as long as the largest place.
        if place > self._at:
            raise RefusedPickleError(f"has a memo of {place:,} places")
        self._memo[place] = self._stack[-1]

    def _get(self, place: int) -> None:
        self._stack.append(self._memo[place])
