"""One record of a timeline at a known place in its text, and the next place after damage.

The text is that of the file decoded as Latin-1, so that one character is one byte. Horovod writes
names of tensors as they are, with quotes, backslashes and control bytes (``timeline.cc``, 0.28.1).
"""

import json
import re
from typing import Any

Record = dict[str, Any]

LONGEST = 4 << 20
"""A record of more bytes than this counts as damage, which bounds what is kept in memory."""

ENOUGH = 8192
"""So many bytes after the place decide whether a name with quotes in it stands there."""

_LONGEST_NAME = 4096
_MARGIN = 64
_DECODER = json.JSONDecoder(strict=False)
_RAW_NAME = re.compile(
    r'\{"name": "process_name", "ph": "M", "pid": (\d{1,18}), "args": \{"name": "'
    rf'((?:(?!"pid": ).){{0,{_LONGEST_NAME}}}?)"\}}\}}(?=[ \t\r\n]{{0,8}}(?:,|\]|\{{|\Z))',
    re.DOTALL,
)
# A record begins with one of Horovod's first keys, or where only a record can begin.
_START = re.compile(
    r'\{[ \t\r\n]{0,40}"ph"[ \t\r\n]{0,8}:'
    r'|\{[ \t\r\n]{0,40}"name"[ \t\r\n]{0,8}:[ \t]{0,8}"process_'
    r'|(?:(?<=[,\[\n])|(?<=, )|(?<=\[ ))\{[ \t\r\n]{0,40}"'
)

_SURROGATE = re.compile("[\ud800-\udfff]")


class NeedMore(Exception):  # noqa: N818 - not an error: more text decides
    """The text ends before it is clear what stands at the place."""


class NotARecord(Exception):  # noqa: N818 - found in every damaged file
    """No record stands at the place, for any text after it."""


def record_at(text: str, start: int, *, all_there: bool) -> tuple[Record, int]:
    """The record that starts at a ``{``, and the place after it.

    Args:
        text: Latin-1 text of a part of the file.
        start: Where the ``{`` stands.
        all_there: The file ends where the text ends.

    Raises:
        NeedMore: More text may make it a record.
        NotARecord: No text after it can.
    """
    try:
        record, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if not all_there and not _is_final(error, text, start):
            raise NeedMore from error
        return _raw_name_at(text, start)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; deep nesting
        raise NotARecord from error
    if end - start > LONGEST:
        raise NotARecord
    if not text.isascii() and not text[start:end].isascii():
        record = _decoded_as_utf8(text[start:end])
    return record, end


def next_start(text: str, start: int, *, all_there: bool) -> tuple[int, bool]:
    """The first place from ``start`` on where a record may start, and whether there is one.

    Where there is none, the place is where to search on when more text is there; the two bytes
    before it must still be in the text then.
    """
    stop = len(text) if all_there else max(len(text) - _MARGIN, start)
    found = _START.search(text, start)
    if found is None or found.start() >= stop:
        return stop, False
    return found.start(), True


def readable(text: str) -> str:
    """A decoded string without unpaired surrogates: other bytes stand as hexadecimal escapes."""
    return text if text.isascii() else _SURROGATE.sub(_as_escape, text)


def _as_escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _is_final(error: json.JSONDecodeError, text: str, start: int) -> bool:
    if len(text) - start >= LONGEST:
        return True
    if len(text) - start < ENOUGH or error.msg.startswith("Unterminated string"):
        return False
    return error.pos < len(text) - _MARGIN


def _raw_name_at(text: str, start: int) -> tuple[Record, int]:
    raw = _RAW_NAME.match(text, start)
    if raw is None:
        raise NotARecord
    pid, name = raw.groups()
    name = name.encode("latin-1").decode("utf-8", "surrogateescape")
    return {"name": "process_name", "ph": "M", "pid": int(pid), "args": {"name": name}}, raw.end()


def _decoded_as_utf8(text: str) -> Record:
    bytes_as_they_are = text.encode("latin-1")
    record: Record = _DECODER.decode(bytes_as_they_are.decode("utf-8", "surrogateescape"))
    return record
