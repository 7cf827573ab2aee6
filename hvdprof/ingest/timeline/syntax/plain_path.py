"""A timeline file to columns in plain Python: for small files, and where numba is not installed."""

import io

from hvdprof.ingest.text.text_chunks import CHUNK_BYTES, Chunks
from hvdprof.ingest.timeline.syntax.pairing import PlainPairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.record_reader import Reader


def parse_plain(content: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> RawTimeline:
    """What the content of a file says; never an error."""
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, PlainPairing()).read()
