"""The door to timeline files: which road reads them, and when a file is refused."""

from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.timeline.chunks import Chunks, Progress
from hvdprof.ingest.timeline.pairing import PlainPairing
from hvdprof.ingest.timeline.raw import RawTimeline
from hvdprof.ingest.timeline.reader import Reader


def read_raw(path: Path, *, progress: Progress | None = None) -> RawTimeline:
    """The records of a timeline file, whatever its layout, damage or compression.

    An empty file, or one that holds an empty list, has no records and is no error.

    Args:
        path: The file; gzip and zstd are told by their content.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        UnreadableInputError: It holds nothing usable; the message says what it is instead.
        MissingExtraError: It is a zstd file, and zstandard is not installed.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as source:
        chunks = Chunks(source, size, progress=progress)
        raw = Reader(chunks, PlainPairing()).read()
    if raw.foreign:
        raise UnreadableInputError(
            f"{path} is {raw.foreign}, not a Horovod timeline.",
            hint="Horovod writes its own with HOROVOD_TIMELINE, or horovodrun --timeline-filename.",
        )
    usable = sum(number for kind, number in raw.num_records.items() if kind != "other")
    if raw.damage.num_places and not usable:
        raise UnreadableInputError(
            f"{path} holds no record of a Horovod timeline: {_what_is(path)}.",
            hint="Give the file that HOROVOD_TIMELINE named on rank 0.",
        )
    return raw


def _what_is(path: Path) -> str:
    with path.open("rb") as source:
        head = source.read(4096)
    if b"\0" in head:
        return "it is binary data"
    first = head.lstrip()[:1]
    return "it is JSON of another kind or cut off" if first in (b"{", b"[") else "it is other text"
