"""The entry point to timeline files: which path reads them, and when a file is refused."""

from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import Chunks, Progress
from hvdprof.ingest.timeline.machine_code import NotCompiledError, has_numba
from hvdprof.ingest.timeline.syntax.pairing import Pairing, PlainPairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from hvdprof.rundir.file_names import shown_name
from hvdprof.rundir.regular_file import open_regular

SMALL_BYTES = 4_000_000
"""Files below this size take the plain path."""

SLOW_BYTES = 200_000_000
SLOW_HINT = "pip install 'hvdprof[fast]' reads it some twenty times faster."
"""The hint where ``is_slow``."""


def read_raw(path: Path, *, progress: Progress | None = None) -> RawTimeline:
    """The records of a timeline file, of any layout, damage or compression.

    An empty file, or one that holds an empty list, has no records and is no error.

    Args:
        path: The file; its content says whether it is gzip or zstd.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        UnreadableInputError: It holds nothing usable; the message says what it is instead.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    try:
        raw = _read(path, size, _pairing_for(size), progress)
    except NotCompiledError:
        raw = _read(path, size, PlainPairing(), progress)
    refuse_unusable(path, raw)
    return raw


def _read(path: Path, size: int, pairing: Pairing, progress: Progress | None) -> RawTimeline:
    with open_regular(path) as source:
        return Reader(Chunks(source, size, progress=progress), pairing).read()


def refuse_unusable(path: Path, raw: RawTimeline) -> None:
    """Raise for a file that was read to its end and holds nothing usable.

    Raises:
        UnreadableInputError: The message says what the file is instead.
    """
    if raw.foreign:
        raise UnreadableInputError(
            f"{shown_name(path)} is {raw.foreign}, not a Horovod timeline.",
            hint="Horovod writes its own with HOROVOD_TIMELINE, or horovodrun --timeline-filename.",
        )
    usable = sum(number for kind, number in raw.num_records.items() if kind != "other")
    if raw.damage.num_places and not usable:
        raise UnreadableInputError(
            f"{shown_name(path)} holds no record of a Horovod timeline: {_what_is(path, raw)}.",
            hint="Give the file that HOROVOD_TIMELINE named on rank 0.",
        )


def is_slow(path: Path) -> bool:
    """Whether a file is so large that reading it without numba is worth a word to the user."""
    return path.stat().st_size >= SLOW_BYTES and not has_numba()


def _pairing_for(size: int) -> Pairing:
    # Below this, starting the compiled code takes longer than reading without it.
    if size < SMALL_BYTES or not has_numba():
        return PlainPairing()
    from hvdprof.ingest.timeline.compiled.fast_path import FastPairing

    return FastPairing(expected_bytes=size)


def _what_is(path: Path, raw: RawTimeline) -> str:
    if raw.layout.compression:
        return raw.damage.places[-1].what
    with open_regular(path) as source:
        head = source.read(4096)
    if b"\0" in head:
        return "it is binary data"
    first = head.lstrip()[:1]
    return "it is JSON of another kind or cut off" if first in (b"{", b"[") else "it is other text"
