"""JSON of files that may be damaged or hostile, whole or a record per line, to dataclasses.

Keys that a newer version added are skipped, unless the caller must know all of them.
"""

import collections.abc
import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.regular_file import open_regular, read_regular, shown_name

LARGEST_INTEGER = 2**63 - 1
"""What fits into a column of a table."""

DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)
"""What using a value of another form than expected raises."""

T = TypeVar("T")
JsonObject = dict[str, Any]
"""An object of JSON with keys that its reader knows."""

LONGEST_LINE = 1 << 24
"""Bytes; no writer of hvdprof comes near them."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; half of a surrogate pair, which no column can hold, is replaced.

    Raises:
        ValueError: It is no JSON or no UTF-8, is nested too deeply, or holds a number beyond 64
            bits; NaN is none of these.
    """
    text = text if isinstance(text, str) else text.decode("utf-8")
    return _parsed(_DECODER.decode, text)


def parse_first(text: bytes) -> Any:
    """The value with which a text begins; bytes that are no UTF-8 are replaced.

    Raises:
        ValueError: As ``parse_json``.
    """
    return _parsed(_DECODER.raw_decode, text.decode("utf-8", "replace"))[0]


def _parsed(decode: Callable[[str], object], text: str) -> Any:
    try:
        value = decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return without_surrogates(value) if "\\u" in text else value


def without_surrogates(value: object) -> Any:
    """A value of JSON in which no text holds half of a surrogate pair."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _integer(digits: str) -> int:
    # Python refuses to convert thousands of digits, in words of its own.
    number = int(digits[:40])
    if abs(number) > LARGEST_INTEGER:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number has more than 64 bits")
    return number


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def to_text(record: Any) -> str:
    """A dataclass instance as indented JSON text, keys in declaration order."""
    return json.dumps(dataclasses.asdict(record), indent=1, ensure_ascii=False) + "\n"


def read_json(kind: type[T], path: Path) -> T:
    """The dataclass that a JSON file holds.

    Raises:
        UnreadableInputError: The file is missing, is not JSON, or lacks a field.
    """
    try:
        data = parse_json(read_regular(path))
        return decode(kind, data, path.name)
    except OSError as error:
        raise UnreadableInputError(
            f"Could not read {shown_name(path)}: {error.strerror}."
        ) from error
    except (ValueError, TypeError) as error:
        raise UnreadableInputError(
            f"{shown_name(path)} is damaged: {error}.",
            hint="It is written whole or not at all, so copy it again from where it was made.",
        ) from error


def decode(kind: type[T], data: object, where: str, *, unknown_keys: bool = True) -> T:
    """The dataclass that JSON values mean.

    Args:
        kind: The dataclass.
        data: What ``json`` read.
        where: What messages call it.
        unknown_keys: Whether keys without a field are skipped, instead of being an error.

    Raises:
        ValueError: A field lacks or has another type, or a key has no field.
    """
    return typing.cast(T, _decode(kind, data, where, unknown_keys))


def _decode(kind: object, data: object, where: str, unknown_keys: bool) -> object:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_record(kind, data, where, unknown_keys)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(arguments, data, where, unknown_keys)
    if origin in (list, tuple, collections.abc.Sequence):
        # A tuple that was never written stays one, as in a manifest before it is saved.
        _expect((list, tuple), data, where)
        items = typing.cast("list[object]", data)
        values = [
            _decode(arguments[0], item, f"{where}[{i}]", unknown_keys)
            for i, item in enumerate(items)
        ]
        return values if origin is list else tuple(values)
    if origin in (dict, collections.abc.Mapping):
        _expect((dict,), data, where)
        return {
            key: _decode(arguments[1], item, f"{where}.{key}", unknown_keys)
            for key, item in typing.cast("dict[str, object]", data).items()
        }
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is not Any and kind is not object:
        _expect((typing.cast(type, kind),), data, where)
    return data


def _decode_union(
    kinds: tuple[object, ...], data: object, where: str, unknown_keys: bool
) -> object:
    """The value as the first kind that it can be; the message is that of the first."""
    if data is None and types.NoneType in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is types.NoneType:
            continue
        try:
            return _decode(kind, data, where, unknown_keys)
        except ValueError as error:
            errors.append(error)
    raise errors[0]


def _decode_record(kind: type, data: object, where: str, unknown_keys: bool) -> object:
    _expect((dict,), data, where)
    given = typing.cast("dict[str, object]", data)
    declared = dataclasses.fields(kind)
    hints = _types_of(kind)
    unknown = given.keys() - {field.name for field in declared}
    if unknown and not unknown_keys:
        raise ValueError(f"{where} has {', '.join(map(repr, sorted(unknown)))}, unknown here")
    values = {}
    for field in declared:
        if field.name in given:
            values[field.name] = _decode(
                hints[field.name], given[field.name], f"{where}.{field.name}", unknown_keys
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where} has no {field.name!r}")
    return kind(**values)


@functools.cache
def _types_of(kind: type) -> dict[str, object]:
    # Most of the time of a long manifest, if each of its records asks anew.
    return typing.get_type_hints(kind)


def _expect(kinds: tuple[type, ...], data: object, where: str) -> None:
    if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
        raise ValueError(f"{where} is {type(data).__name__}, not {kinds[0].__name__}")


def whole_lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Lines with their end; ``None`` for one that is longer than any that is written."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        yield None


def read_lines(path: Path, take: Callable[[int, JsonObject], object]) -> list[str]:
    """Hand the object of each line on; a clause for each line that is damaged.

    Args:
        path: The file.
        take: Called with the number of a line and its object; what it raises of ``DAMAGE`` is the
            damage of that line.

    Raises:
        OSError: The file cannot be read.
    """
    clauses = []
    with open_regular(path) as stream:
        for number, text in enumerate(whole_lines(stream), start=1):
            try:
                if text is None:
                    raise ValueError("it is too long")
                if not text.strip():
                    continue
                line = parse_json(text)
                if not isinstance(line, dict):
                    raise ValueError("it is no object")
                take(number, line)
            except DAMAGE as error:
                clauses.append(damaged(number, error))
    return clauses


def damaged(number: int, error: Exception) -> str:
    """The clause that names a damaged line."""
    return f"line {number} is damaged: {type(error).__name__}"
