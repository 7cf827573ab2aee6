"""The events of a profiler trace as pieces of text, without ever holding the whole file.

Kineto writes names as they are: a quotation mark or a backslash in one makes invalid JSON. So a
record is what stands between two starts of a record, and its fields are found one by one.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import Chunks, Progress
from hvdprof.rundir.json_codec import parse_first
from hvdprof.rundir.regular_file import open_regular, shown_name

CHUNK_BYTES = 4 << 20
LARGEST_RECORD_BYTES = 16 << 20
"""A longer record holds no event of a profiler, and would be held in memory as a whole."""

HEAD_BYTES = 1 << 20

# Nested objects stand after a colon, so that they begin no record.
_START = re.compile(rb'[\[,]\s*\{(?=\s*"(?:ph|cat|name|pid|tid|ts)"\s*:)')
_LIST_END = re.compile(rb"\}\s*\]\s*[,}]")
# More digits fit no column, however they are used.
_NUMBER = rb'"%s"\s*:\s*"?(-?\d{1,16})(?!\d)(?:\.(\d*))?'
_TS, _DUR = re.compile(_NUMBER % b"ts"), re.compile(_NUMBER % b"dur")
_NAME = re.compile(
    rb'"name"\s*:\s*"(.*?)"\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|id|args|s|bp)"\s*:|\}\s*$)',
    re.DOTALL,
)
_CAT = re.compile(rb'"cat"\s*:\s*"([^"]*)"')
_PHASE = re.compile(rb'"ph"\s*:\s*"(\w)"')
_TID = re.compile(rb'"tid"\s*:\s*"?(-?\d{1,18})(?!\d)')
_ARGS = re.compile(rb'"args"\s*:\s*(\{.*)', re.DOTALL)
_NS_DIGITS = 3
_LATEST_NS, _LONGEST_NS = 2**62, 2**53
"""In 2116; 104 days. Sums of them fit 64 bits."""

Args = dict[str, object]


@dataclass(slots=True)
class TraceText:
    """What stands around the events of a trace, and how its reading ended.

    Attributes:
        head: The text before the first event, at most ``HEAD_BYTES``.
        tail: The text behind the last event.
        is_complete: The list of events has an end.
        broken: Why the file ends early; empty where it does not.
        num_records: Records seen.
    """

    head: bytes = b""
    tail: bytes = b""
    is_complete: bool = False
    broken: str = ""
    num_records: int = 0


Scan = Callable[[Chunks, TraceText], Iterator[bytes]]
"""Takes what a window holds before the start of its last record, and moves the window there."""


def is_at_events(chunks: Chunks, text: TraceText) -> bool:
    """Move the window to the first event, with ``text.head`` filled; whether there is one."""
    if not text.head:
        first = _START.search(chunks.data.data, 0, chunks.end)
        if first is None:
            return False
        text.head = chunks.data[: min(first.start() + 1, HEAD_BYTES)].tobytes()
        chunks.forget(first.start())
    return True


def every_record(chunks: Chunks, text: TraceText) -> Iterator[bytes]:
    """The text of every event of a window but the last."""
    if not is_at_events(chunks, text):
        return
    piece = chunks.data[: chunks.end].tobytes()
    starts = [match.start() for match in _START.finditer(piece)]
    text.num_records += len(starts) - 1
    chunks.forget(starts[-1])
    for start, end in itertools.pairwise(starts):
        yield piece[start:end]


def trace_records(
    path: Path, text: TraceText, scan: Scan = every_record, *, progress: Progress | None = None
) -> Iterator[bytes]:
    """The text of the events of a trace, in the order of the file; ``text`` is filled meanwhile.

    Args:
        path: A trace, plain or compressed.
        text: Receives what stands around the events.
        scan: Finds the events; it may leave out some.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        OSError: The file cannot be read.
        UnreadableInputError: A record is far too long for an event.
    """
    with open_regular(path) as stream:
        chunks = Chunks(stream, path.stat().st_size, chunk_bytes=CHUNK_BYTES, progress=progress)
        while not chunks.final:
            chunks.more()
            yield from scan(chunks, text)
            if chunks.end > LARGEST_RECORD_BYTES:
                raise UnreadableInputError(
                    f"{shown_name(path)}: a record is longer than "
                    f"{LARGEST_RECORD_BYTES >> 20} MiB, so it is no profiler trace."
                )
        text.broken = chunks.broken
        rest = chunks.data[: chunks.end].tobytes()
    if not text.head:
        text.head = rest[:HEAD_BYTES]
        return
    last = _LIST_END.search(rest)
    text.is_complete = last is not None
    if last is not None:
        text.tail = rest[last.start() + 1 :]
        text.num_records += 1
        yield rest[: last.start() + 1]


def phase_of(record: bytes) -> bytes:
    """The phase of an event: X for one with a length."""
    match = _PHASE.search(record)
    return match[1] if match else b""


def category_of(record: bytes) -> bytes:
    """The category of an event; empty where it has none."""
    match = _CAT.search(record)
    return match[1] if match else b""


def name_of(record: bytes) -> str:
    """The name of an event; quotation marks in it stay."""
    match = _NAME.search(record)
    return match[1].decode("utf-8", "replace") if match else ""


def thread_of(record: bytes) -> int:
    """The thread or stream; -1 where it is no number."""
    match = _TID.search(record)
    return int(match[1]) if match else -1


def times_of(record: bytes) -> tuple[int, int] | None:
    """Start and length of an event in ns, both exact; None where one is missing or absurd."""
    start, length = _TS.search(record), _DUR.search(record)
    if start is None or length is None:
        return None
    times = _ns(start), _ns(length)
    return times if abs(times[0]) < _LATEST_NS and abs(times[1]) < _LONGEST_NS else None


def args_of(record: bytes) -> Args:
    """The arguments of an event; those that can be found where it is no valid JSON."""
    match = _ARGS.search(record)
    if match is None:
        return {}
    try:
        args = parse_first(match[1])
    except ValueError:
        return _found_args(match[1])
    return args if isinstance(args, dict) else {}


_KNOWN_ARG = re.compile(
    rb'"([A-Z][A-Za-z ]{1,40}|dtype|stream|correlation|device)"\s*:\s*'
    rb'(?:"([^"\\]{0,400})"|(-?\d{1,18})\b)'
)


def _found_args(text: bytes) -> Args:
    found: Args = {}
    for key, word, number in _KNOWN_ARG.findall(text):
        found[key.decode("ascii")] = int(number) if number else word.decode("utf-8", "replace")
    return found


def _ns(match: re.Match[bytes]) -> int:
    return int(match[1] + (match[2] or b"")[:_NS_DIGITS].ljust(_NS_DIGITS, b"0"))
