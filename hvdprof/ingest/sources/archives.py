"""Archives (tar, compressed or not, and ZIP), unpacked into the workspace with bounds.

Only regular files with plain relative names are written, so that nothing leaves the workspace;
links, devices and encrypted files are left out and counted.
"""

import contextlib
import errno
import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, cast

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources.listing import MOST_FOLDERS_DEEP
from hvdprof.ingest.sources.tar_members import (
    BLOCK_BYTES,
    TarDamageError,
    TooManyHeadersError,
    tar_members,
)
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.ingest.text.compression import DAMAGE, Readable, compression_of, unpacked
from hvdprof.model.notes import Note, NoteCode
from hvdprof.plain_text import printable
from hvdprof.rundir.regular_file import open_regular, show_as, shown_name
from hvdprof.units import byte_size, count

MOST_FILES = 10_000
MOST_EXPANSION = 200
"""An archive may grow to so many times its size; logs and timelines stay below 100."""

_ALWAYS_BYTES = 256_000_000
"""Below this, an archive may grow by more."""

_LONGEST_ZIP_DIRECTORY = 4_000_000
_PIECE_BYTES = 1 << 18
_ZIP = b"PK\x03\x04"
_OTHER_ZIPS = (
    ("data.pkl", "a PyTorch checkpoint"),
    ("[Content_Types].xml", "an Office document"),
    ("META-INF/MANIFEST.MF", "a Java archive"),
)
_DAMAGE = (
    *DAMAGE,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TarDamageError,
    ValueError,
    zipfile.BadZipFile,
)
_IMPOSSIBLE_NAMES = (
    *(errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL),
)

Member = tuple[str, int, Iterator[bytes] | None]
"""The name of a file, its size as stated, and its bytes; None where it is no regular file."""


@dataclass(slots=True)
class Unpacked:
    """The folder that stands for an archive, and clauses that say what was left out."""

    folder: Path
    notes: list[Note] = field(default_factory=list)


def is_archive(head: bytes) -> bool:
    """Whether a file that begins so is a ZIP archive or a tar archive, compressed or not."""
    if head.startswith(_ZIP):
        return True
    if compression := compression_of(head):
        with contextlib.suppress(*_DAMAGE):
            head = unpacked(io.BytesIO(head), compression).read1(BLOCK_BYTES)
    # Whether the first block is the header of a tar archive, by its checksum.
    try:
        tarfile.TarInfo.frombuf(head[:BLOCK_BYTES], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpack(path: Path, workspace: Workspace) -> Unpacked:
    """The files of an archive, in a new folder of the workspace that is shown as the archive.

    Damage ends the reading; what stood before it is there.

    Raises:
        UnreadableInputError: It cannot be read, is a file of another program that has the form of
            an archive, or unpacks to more than the limits.
    """
    folder = workspace.new_folder()
    show_as(folder, shown_name(path))
    result = Unpacked(folder)
    try:
        with open_regular(path) as source:
            size = path.stat().st_size
            most = min(max(MOST_EXPANSION * size, _ALWAYS_BYTES), workspace.most_bytes())
            _Writer(path, folder, most).write_all(_members(path, source, most), result.notes)
    except OSError as error:
        raise UnreadableInputError(
            f"{shown_name(path)} cannot be unpacked: {error.strerror or error}."
        ) from error
    return result


class _Writer:
    def __init__(self, path: Path, folder: Path, most_bytes: int) -> None:
        self._path, self._folder, self._most = path, folder, most_bytes
        self._size = self._num_files = self._num_left_out = 0

    def write_all(self, members: Iterator[Member], notes: list[Note]) -> None:
        try:
            for name, _, pieces in members:
                self._write(name, pieces)
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            read = "read up to there" if self._num_files else "nothing of it is read"
            text = f"the archive is damaged ({printable(str(error))}); {read}"
            notes.append(Note(NoteCode.ARCHIVE, text))
        if self._num_left_out:
            entries = "entry is" if self._num_left_out == 1 else "entries are"
            text = (
                f"{count(self._num_left_out)} {entries} left out (link, device, encrypted file, or "
                "a name that is absolute, not plain, too deep or there twice)"
            )
            notes.append(Note(NoteCode.ARCHIVE, text, number=self._num_left_out))

    def _write(self, name: str, pieces: Iterator[bytes] | None) -> None:
        if self._num_files >= MOST_FILES:
            raise UnreadableInputError(
                f"{shown_name(self._path)} holds more than {count(MOST_FILES)} files.",
                hint="Unpack it, and name the files of one job.",
            )
        file = None if pieces is None else self._new_file(name)
        if pieces is None or file is None:
            self._num_left_out += 1
            return
        self._num_files += 1
        with file:
            for piece in pieces:
                self._size += len(piece)
                if self._size > self._most:
                    raise _too_large(self._path, self._most)
                file.write(piece)

    def _new_file(self, name: str) -> IO[bytes] | None:
        """The file for a member; None for a name that is not plain, too deep or there already."""
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            return None
        if len(parts) > MOST_FOLDERS_DEEP:
            return None
        target = self._folder.joinpath(*parts)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return target.open("xb")
        except OSError as error:
            if error.errno not in _IMPOSSIBLE_NAMES:
                raise
            return None


def _too_large(path: Path, most_bytes: int) -> UnreadableInputError:
    return UnreadableInputError(
        f"{shown_name(path)} unpacks to more than {byte_size(most_bytes)}, "
        "the limit for an archive of its size.",
        hint="Unpack it, and name the files that hold the job.",
    )


def _members(path: Path, source: IO[bytes], most_bytes: int) -> Iterator[Member]:
    head = source.read(BLOCK_BYTES)
    source.seek(0)
    if head.startswith(_ZIP):
        yield from _zip_members(path, source)
        return
    compression = compression_of(head)
    # Files that are open for reading in binary have ``read1``; ``IO`` does not say so.
    stream = unpacked(source, compression) if compression else cast(Readable, source)
    try:
        yield from tar_members(_BoundedStream(stream, path, most_bytes))
    except TooManyHeadersError as error:
        raise UnreadableInputError(
            f"{shown_name(path)} holds more than {count(error.most)} entries.",
            hint="Unpack it, and name the files of one job.",
        ) from error


class _BoundedStream:
    """A stream that refuses to give more than a limit, also of members that are skipped."""

    def __init__(self, stream: Readable, path: Path, most_bytes: int) -> None:
        self._stream, self._path, self._most = stream, path, most_bytes
        self._size = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._stream.read1(size)
        self._size += len(piece)
        if self._size > self._most:
            raise _too_large(self._path, self._most)
        return piece


class _BoundedReads:
    """A file whose reads are bounded: the directory of a ZIP archive is read into memory whole.

    In memory, an entry of it takes about 16 times as much as in the file.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        most = _LONGEST_ZIP_DIRECTORY + 1
        piece = self._file.read(min(size, most) if size >= 0 else most)
        if len(piece) == most:
            raise UnreadableInputError(
                f"{shown_name(self._path)} has a directory of more than "
                f"{byte_size(_LONGEST_ZIP_DIRECTORY)}.",
                hint="Unpack it, and name the files of one job.",
            )
        return piece


def _zip_members(path: Path, source: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(_BoundedReads(source, path)) as archive:
        names = archive.namelist()
        for mark, kind in _OTHER_ZIPS:
            if any(name == mark or name.endswith(f"/{mark}") for name in names):
                raise UnreadableInputError(f"{shown_name(path)} is {kind}; it is not read.")
        for info in archive.infolist():
            if info.is_dir():
                continue
            kind_bits = info.external_attr >> 28
            is_regular = kind_bits in (0, 8) and not info.flag_bits & 1
            yield info.filename, info.file_size, _zip_pieces(archive, info) if is_regular else None


def _zip_pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
