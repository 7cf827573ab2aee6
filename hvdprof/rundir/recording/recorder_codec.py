"""Lines of a recorder file to bytes and back, and all declared lines with their keys."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NotRequired, cast, get_args, get_origin, get_type_hints

from hvdprof.rundir.json_codec import without_surrogates
from hvdprof.rundir.recording.line_format import Key
from hvdprof.rundir.recording.recorder_format import RecorderLine

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

_KIND_WITHIN_BYTES = 40
_STEP_KINDS = b'"kind":"step"', b'"kind": "step"'


def to_bytes(line: RecorderLine) -> bytes:
    """A line as the file holds it, its end included."""
    # Names of files may hold characters that UTF-8 cannot encode.
    return _encode(line).encode("utf-8", "replace") + b"\n"


def from_bytes(text: bytes) -> RecorderLine:
    """The line that a text holds; its kind may be unknown, its keys missing or of another type.

    Raises:
        ValueError: It is not a JSON object with a ``kind``, or not UTF-8.
        RecursionError: It is nested too deeply.
    """
    line = json.loads(text.decode("utf-8"))
    if b"\\u" in text:
        line = without_surrogates(line)
    if not isinstance(line, Mapping) or not isinstance(line.get("kind"), str):
        raise ValueError("not a line of a recorder file")
    return cast(RecorderLine, line)


def is_step(text: bytes) -> bool:
    """Whether a text is a ``step`` line, seen without parsing it."""
    head = text[:_KIND_WITHIN_BYTES]
    return _STEP_KINDS[0] in head or _STEP_KINDS[1] in head


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A key of a kind of line; an optional one may be absent."""

    name: str
    doc: str
    unit: str
    is_optional: bool


@dataclass(frozen=True, slots=True)
class DeclaredKind:
    """A kind of line, its meaning, and its keys after ``kind`` in their order."""

    name: str
    doc: str
    keys: tuple[DeclaredKey, ...]


def declared_kinds() -> Iterator[DeclaredKind]:
    """Every kind of line in the order of the union ``RecorderLine``."""
    for line in get_args(RecorderLine):
        hints = get_type_hints(line, include_extras=True)
        (name,) = get_args(hints.pop("kind"))
        keys = (_declared(key, hint) for key, hint in hints.items())
        yield DeclaredKind(name, (line.__doc__ or "").split("\n")[0], tuple(keys))


def _declared(name: str, hint: object) -> DeclaredKey:
    key = next(item for item in vars(hint)["__metadata__"] if isinstance(item, Key))
    is_optional = get_origin(get_args(hint)[0]) is NotRequired
    return DeclaredKey(name, key.doc, key.unit, is_optional)
