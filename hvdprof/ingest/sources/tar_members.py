"""The members of a tar archive from a stream, one after the other, in bounded memory.

``tarfile`` reads names of any stated length into memory at once, which is why only its parser of
headers is used.
"""

import tarfile
from collections.abc import Iterator
from typing import Protocol

BLOCK_BYTES = 512
MOST_HEADERS = 100_000
_LONGEST_NAME = 1 << 16
_MOST_DIGITS = 20
_PIECE_BYTES = 1 << 18
_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_SKIPPED = (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE, tarfile.DIRTYPE)
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes:
        """At most so many bytes; fewer at the end, and none behind it."""
        ...


class TarDamageError(Exception):
    """The archive is cut off or damaged here; all members before were given."""


class TooManyHeadersError(Exception):
    """The archive has more headers than ``most``; those of names and folders count too."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} headers")
        self.most = most


def tar_members(stream: _Readable) -> Iterator[tuple[str, int, Iterator[bytes] | None]]:
    """Name, size in bytes and content of each member.

    The content is ``None`` where it is no regular file. It need not be read: what is left of it is
    skipped before the next member.

    Raises:
        TarDamageError: The archive is damaged.
        TooManyHeadersError: It has more headers than ``MOST_HEADERS``.
    """
    named: dict[str, str] = {}
    num_headers = 0
    while (info := _header(stream)) is not None:
        num_headers += 1
        if num_headers > MOST_HEADERS:
            raise TooManyHeadersError(MOST_HEADERS)
        if info.type in _NAMES:
            named |= _names_of(info, stream)
            continue
        size = int(named.get("size", info.size)) if info.type in _REGULAR else info.size
        name = named.get("path", info.name)
        named = {}
        content = _content(stream, size)
        if info.type in _REGULAR:
            yield name, size, content
        elif info.type == tarfile.GNUTYPE_SPARSE:
            raise TarDamageError("it holds a sparse file, which is not read")
        elif info.type not in _SKIPPED:
            yield name, size, None
        for _ in content:
            pass


def _header(stream: _Readable) -> tarfile.TarInfo | None:
    """The next header; None at the end, which zeros or the end of the file mark."""
    block = _read(stream, BLOCK_BYTES)
    if not block or not block.strip(b"\0"):
        return None
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise TarDamageError(str(error)) from error
    if info.size < 0:
        raise TarDamageError("a size is negative")
    # Links and folders state a size without content.
    if info.type in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
        info.size = 0
    return info


def _names_of(info: tarfile.TarInfo, stream: _Readable) -> dict[str, str]:
    """What a header before a member says of it: ``path`` and ``size``."""
    if info.size > _LONGEST_NAME:
        raise TarDamageError("a name is longer than 64 KiB")
    content = b"".join(_content(stream, info.size))
    if info.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": _text(content.rstrip(b"\0"))}
    found = {}
    while content:
        length, blank, _ = content.partition(b" ")
        is_number = length.isdigit() and len(length) <= _MOST_DIGITS
        if not blank or not is_number or not 0 < int(length) <= len(content):
            raise TarDamageError("an extended header is damaged")
        record, content = content[: int(length)], content[int(length) :]
        key, _, value = record[len(length) + 1 :].removesuffix(b"\n").partition(b"=")
        if key == b"path" or (key == b"size" and value.isdigit() and len(value) < 20):
            found[key.decode()] = _text(value)
    return found


def _content(stream: _Readable, size: int) -> Iterator[bytes]:
    """The bytes of a member; behind it the stream stands at the next header."""
    left = size
    while left:
        piece = stream.read(min(left, _PIECE_BYTES))
        if not piece:
            raise TarDamageError("it ends early")
        left -= len(piece)
        yield piece
    _read(stream, -size % BLOCK_BYTES)


def _read(stream: _Readable, size: int) -> bytes:
    parts = b""
    while len(parts) < size and (piece := stream.read(size - len(parts))):
        parts += piece
    return parts


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
