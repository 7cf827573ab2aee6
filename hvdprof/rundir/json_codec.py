"""Dataclasses to JSON and back, strict about types.

Keys that a newer version added are skipped, unless the caller must know all of them.

Tested by tests/rundir/test_manifest.py.
"""

import collections.abc
import dataclasses
import functools
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.json_text import parse_json
from hvdprof.rundir.regular_file import read_regular
from hvdprof.rundir.shown_names import shown_name

T = TypeVar("T")

JsonObject = dict[str, Any]
"""An object of JSON with keys that its reader knows."""


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
