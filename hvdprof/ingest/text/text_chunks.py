"""The text of a file in pieces: plain or compressed, UTF-8 or UTF-16, without ever holding it all.

``Chunks`` reads on, and keeps what is not used up, so that a record is never cut by a border.
"""

import codecs
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from hvdprof.ingest.text.compression import DAMAGE, ZSTD, compression_of, unpacked

CHUNK_BYTES = 1 << 20
SLACK = 64
"""So many zero bytes stand behind the text in the buffer: the kernel reads words ahead."""

Progress = Callable[[int, int], None]
"""Called with the bytes of the file read so far, and its size."""

MOST_EXPANSION = 200
"""A compressed file may grow to so many times its size; logs and timelines stay below 100."""

MOST_ZEROS = 1_000_000_000
"""Reading ends behind so many zero bytes in a row: a full disk leaves them, or a sparse file."""

_ALWAYS_BYTES = 256_000_000
"""Below this, a compressed file may grow by more."""

_SEARCHED_BYTES = 1 << 16
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_SMALLEST_READ = 1 << 16
_UTF8_MARK = b"\xef\xbb\xbf"
# No byte of UTF-8: what the decoder wrote before an error ends where these begin.
_UNWRITTEN = b"\xff"


class Chunks:
    """A window on the text of a file, moved on by ``forget`` and ``more``.

    Args:
        source: The file.
        size: Its size, for ``progress``.
        chunk_bytes: So many bytes are read at once.
        progress: Called with the bytes of the file read so far and its size.
        text_bytes: The text ends after so many bytes, even where the file has grown.

    Attributes:
        data: The buffer; the window is ``data[:end]``, followed by ``SLACK`` zero bytes.
        end: Length of the window.
        offset: Place of ``data[0]`` in the text.
        final: The window reaches to the end of the text.
        compression: Empty, or what ``compression_of`` names.
        encoding: ``utf-8`` or ``utf-16``.
        broken: Why the text ends early; empty where it does not.
    """

    def __init__(
        self,
        source: IO[bytes],
        size: int,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        progress: Progress | None = None,
        text_bytes: int | None = None,
    ) -> None:
        self.chunk_bytes = chunk_bytes
        self.data = np.zeros(2 * chunk_bytes + SLACK, np.uint8)
        self.end = 0
        self.offset = 0
        self.final = False
        self.compression = ""
        self.encoding = "utf-8"
        self.broken = ""
        self._progress = progress
        self._source, self._size = source, size
        self._pieces = self._opened()
        self._rest = b""
        self._text_left = sys.maxsize if text_bytes is None else text_bytes

    def more(self) -> None:
        """Read another piece of the text behind the window; sets ``final`` at its end."""
        piece = self._next_piece()[: self._text_left]
        self._text_left -= len(piece)
        if not piece:
            self.final = True
            return
        needed = self.end + len(piece) + SLACK
        if needed > len(self.data):
            grown = np.zeros(2 * needed, np.uint8)
            grown[: self.end] = self.data[: self.end]
            self.data = grown
        self.data[self.end : self.end + len(piece)] = np.frombuffer(piece, np.uint8)
        self.end += len(piece)
        self.data[self.end : self.end + SLACK] = 0

    def forget(self, start: int) -> None:
        """Drop the window before ``start``."""
        if start:
            rest = self.data[start : self.end].copy()
            self.data[: len(rest)] = rest
            self.end = len(rest)
            self.data[self.end : self.end + SLACK] = 0
            self.offset += start

    def find(self, byte: int, start: int) -> int:
        """Where a byte stands in the window from ``start`` on; its end where it does not."""
        for first in range(start, self.end, _SEARCHED_BYTES):
            found = self.data[first : min(first + _SEARCHED_BYTES, self.end)] == byte
            place = int(found.argmax())
            if found[place]:
                return first + place
        return self.end

    def text(self, start: int, length: int) -> str:
        """A part of the window as Latin-1 text, shorter at its end."""
        return self.data[start : min(start + length, self.end)].tobytes().decode("latin-1")

    def _next_piece(self) -> bytes:
        while len(self._rest) < self.chunk_bytes:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest = self._rest + piece if self._rest else piece
        piece = self._rest
        if len(piece) > self.chunk_bytes:
            piece, self._rest = piece[: self.chunk_bytes], piece[self.chunk_bytes :]
        else:
            self._rest = b""
        return piece

    def _opened(self) -> Iterator[bytes]:
        raw = self._blocks()
        head = next(raw, b"")
        self.compression = compression_of(head)
        if self.compression:
            raw = self._zstd_decoded() if self.compression == ZSTD else self._unpacked()
            head = next(raw, b"")
        raw = self._bounded(raw)
        encoding = _UTF16.get(head[:2])
        if encoding is None:
            return itertools.chain([head.removeprefix(_UTF8_MARK) or b"\n"], raw)
        self.encoding = "utf-16"
        return _transcoded(itertools.chain([head[2:]], raw), encoding)

    def _bounded(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """The text up to a bound: a small file can stand for terabytes."""
        num_zeros = num_unpacked = 0
        most = max(MOST_EXPANSION * self._size, _ALWAYS_BYTES) if self.compression else sys.maxsize
        for piece in raw:
            num_unpacked += len(piece)
            num_zeros = num_zeros + len(piece) if _is_zeros(piece) else 0
            if num_zeros > MOST_ZEROS:
                self.broken = "more than 1 GB of zero bytes follow, behind which nothing is read"
                return
            if num_unpacked > most:
                self.broken = f"it unpacks to more than {MOST_EXPANSION} times its size"
                return
            yield piece

    def _blocks(self) -> Iterator[bytes]:
        size = max(self.chunk_bytes, _SMALLEST_READ)
        while piece := self._source.read(size):
            self._report_progress()
            yield piece

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(self._source.tell(), self._size)

    def _unpacked(self) -> Iterator[bytes]:
        stream = unpacked(self._source, self.compression)
        try:
            while piece := stream.read1(CHUNK_BYTES):
                self._report_progress()
                yield piece
        except EOFError:
            self.broken = f"the {self.compression} data ends early"
        except DAMAGE as error:
            # An error of the disk has a number, one of the decoder has none.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self.broken = f"the {self.compression} data is damaged ({error})"

    def _zstd_decoded(self) -> Iterator[bytes]:
        stream = unpacked(self._source, ZSTD)
        while True:
            room = bytearray(_UNWRITTEN * CHUNK_BYTES)
            try:
                length = stream.readinto(room)
            except OSError as error:
                if error.errno is not None:
                    raise
                yield bytes(room).rstrip(_UNWRITTEN)
                ends_early = "Truncated" in str(error)
                reason = "ends early" if ends_early else f"is damaged ({error})"
                self.broken = f"the zstd data {reason}"
                return
            if not length:
                return
            self._report_progress()
            yield bytes(room[:length])


def _is_zeros(piece: bytes) -> bool:
    return piece[0] == piece[-1] == 0 and not np.frombuffer(piece, np.uint8).any()


def _transcoded(raw: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for piece in raw:
        if text := decoder.decode(piece):
            yield text.encode("utf-8", "replace")
