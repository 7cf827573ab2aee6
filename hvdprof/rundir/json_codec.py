"""Dataclasses to JSON and back, strict about types and tolerant of keys a newer version added."""

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from hvdprof.errors import UnreadableInputError

T = TypeVar("T")


def to_text(record: Any) -> str:
    """A dataclass instance as indented JSON text, keys in declaration order."""
    return json.dumps(dataclasses.asdict(record), indent=1, ensure_ascii=False) + "\n"


def read_json(kind: type[T], path: Path) -> T:
    """The dataclass that a JSON file holds.

    Raises:
        UnreadableInputError: The file is missing, is not JSON, or lacks a field.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return typing.cast(T, _decode(kind, data, path.name))
    except OSError as error:
        raise UnreadableInputError(f"Could not read {path}: {error.strerror}.") from error
    except (ValueError, TypeError) as error:
        raise UnreadableInputError(
            f"{path} is damaged: {error}.",
            hint="It is written whole or not at all, so copy it again from where it was made.",
        ) from error


def _decode(kind: Any, data: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, data, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        choices = [choice for choice in arguments if choice is not types.NoneType]
        return None if data is None else _decode(choices[0], data, where)
    if origin is list:
        _expect(list, data, where)
        return [_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data)]
    if origin is dict:
        _expect(dict, data, where)
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is not Any:
        _expect(kind, data, where)
    return data


def _decode_record(kind: Any, data: Any, where: str) -> Any:
    _expect(dict, data, where)
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _decode(
                hints[field.name], data[field.name], f"{where}.{field.name}"
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where} has no {field.name!r}")
    return kind(**values)


def _expect(kind: Any, data: Any, where: str) -> None:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{where} is {type(data).__name__}, not {kind.__name__}")
