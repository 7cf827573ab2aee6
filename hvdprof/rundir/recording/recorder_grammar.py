"""The declared lines of a recorder file and their keys, for the documentation and for tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args, get_type_hints

from hvdprof.rundir.recording.recorder_format import RecorderLine
from hvdprof.rundir.recording.window_line import Key


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
    is_optional = not hasattr(hint, "__metadata__")
    (annotated,) = get_args(hint) if is_optional else (hint,)
    key = next(item for item in annotated.__metadata__ if isinstance(item, Key))
    return DeclaredKey(name, key.doc, key.unit, is_optional)
