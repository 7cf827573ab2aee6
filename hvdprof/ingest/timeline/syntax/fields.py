"""A record of a timeline at a known place: what it says, and which records are not Horovod's.

Horovod writes B, E, X (a rank, with its number as the name and length 0), i (a cycle mark without
pid) and M (``process_name`` and ``process_sort_index``); never a thread, a category or an id, which
tools that merge or convert traces add.
"""

import json
import math
import re
from typing import Any, NamedTuple

from hvdprof.ingest.text.whole_number import whole

BEGIN, END, TICK, MARK, NAMING = "B", "E", "X", "i", "M"
CYCLE_START = "CYCLE_START"
"""Mark of an iteration of Horovod's loop."""

_ADDED_KEYS = frozenset({"tid", "cat", "id"})
# "Trace Event Format", the document of the Chromium project, lists them.
_KINDS_OF_CHROME = frozenset("BEXiInbesftPpCNODMVvRcSTF()=")
_LARGEST_RANK = 2**31 - 1

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


class Event(NamedTuple):
    """A timed record; ``pid`` is -1 for marks, ``rank`` -1 for all but ticks."""

    kind: str
    pid: int
    ts_us: int
    name: str = ""
    rank: int = -1
    args: str | None = None


class Naming(NamedTuple):
    """A metadata record; ``tensor`` and ``epoch_us`` where it says them."""

    pid: int
    tensor: str | None
    epoch_us: int | None


class UnusableError(ValueError):
    """A record of Horovod's whose fields are missing or hold something else."""


def meaning(record: Record) -> Event | Naming | None:
    """What a record says; ``None`` for one that Horovod never writes.

    A record with ``has_added_keys`` is possibly of another trace in the same file.

    Raises:
        UnusableError: A field is missing or holds something else.
    """
    handle = _BY_PH.get(str(record.get("ph")))
    try:
        if handle is None:
            if record.get("ph") not in _KINDS_OF_CHROME:
                raise UnusableError("no kind of record")
            return None
        return handle(record)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        if has_added_keys(record):
            return None
        raise UnusableError(str(error)) from error


def has_added_keys(record: Record) -> bool:
    """Whether a record holds a key that other traces have and Horovod never writes."""
    return not _ADDED_KEYS.isdisjoint(record)


def _naming(record: Record) -> Naming | None:
    args = record.get("args")
    if record.get("name") != "process_name" or not isinstance(args, dict):
        return Naming(-1, None, None)
    epoch = args.get("start_time_since_epoch_in_micros")
    tensor = args.get("name")
    if epoch is None and tensor is None:
        return Naming(-1, None, None)
    return Naming(
        whole(record["pid"]),
        None if tensor is None else readable(str(tensor)),
        None if epoch is None else whole(epoch),
    )


def _begin(record: Record) -> Event:
    return Event(BEGIN, whole(record["pid"]), _time(record), _text(record["name"]))


def _end(record: Record) -> Event:
    args = record.get("args")
    said = None if args is None else readable(json.dumps(args, ensure_ascii=False))
    return Event(END, whole(record["pid"]), _time(record), args=said)


def _tick(record: Record) -> Event | None:
    name = record["name"]
    if record.get("dur", 0) != 0 or not isinstance(name, str) or not _is_rank(name):
        return None
    return Event(TICK, whole(record["pid"]), _time(record), rank=int(name))


def _mark(record: Record) -> Event:
    return Event(MARK, -1, _time(record), _text(record["name"]))


def _time(record: Record) -> int:
    value = record["ts"]
    if isinstance(value, float) and math.isfinite(value):
        value = math.floor(value)
    return whole(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnusableError(f"{value!r} is not a name")
    return readable(value)


def _is_rank(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= _LARGEST_RANK


_BY_PH = {BEGIN: _begin, END: _end, TICK: _tick, MARK: _mark, NAMING: _naming}


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
