"""Compressed files: recognised by their first bytes, unpacked up to where they end or are damaged.

Tested in ``tests/ingest/text/test_text_chunks.py`` and ``tests/ingest/sources/test_archives.py``.
"""

import bz2
import gzip
import lzma
import zlib
from typing import IO, Protocol

ZSTD = "zstd"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": ZSTD, b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""What reading damaged data raises; EOFError where it ends early, OSError with an ``errno`` where
the disk fails."""


class Readable(Protocol):
    """Bytes that can be read once."""

    def read1(self, size: int = ..., /) -> bytes:
        """At most so many bytes, of one read: an error loses nothing that was unpacked before."""
        ...

    def readinto(self, buffer: bytearray, /) -> int:
        """Fill a buffer as far as possible; how many bytes that is."""
        ...


def compression_of(head: bytes) -> str:
    """``gzip``, ``zstd``, ``xz`` or ``bzip2`` by the first bytes of a file; empty for others."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


def unpacked(source: IO[bytes], compression: str) -> Readable:
    """A file from its beginning, unpacked.

    Args:
        source: The file.
        compression: As ``compression_of`` names it.
    """
    source.seek(0)
    if compression == ZSTD:
        # Its import takes longer than reading a small file.
        import pyarrow as pa

        stream: Readable = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), ZSTD)
        return stream
    if compression == "gzip":
        return gzip.GzipFile(fileobj=source, mode="rb")
    return lzma.LZMAFile(source) if compression == "xz" else bz2.BZ2File(source)
