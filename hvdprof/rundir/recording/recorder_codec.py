"""Lines of a recorder file to bytes and back."""

import json
from collections.abc import Mapping
from typing import cast

from hvdprof.rundir.json_codec import without_surrogates
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
