"""Files of strangers are opened only where they are regular files: no pipe, device or socket.

A named pipe without a writer blocks its reader, and ``/dev/zero`` never ends.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import IO

END_BYTES = 64
"""As much of what was read last is compared, before more is read of a file."""

_NAMES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularFileError(OSError):
    """A path names something other than a regular file, or leads out of its run directory."""


def open_regular(path: Path) -> BufferedReader:
    """A regular file, opened for its bytes; links are followed.

    Raises:
        NotRegularFileError: It is a pipe, a socket, a device or a folder.
        OSError: It cannot be opened.
    """
    # Opening a device can act on it, so it is looked at before.
    _refuse_irregular(os.stat(path).st_mode, path)  # noqa: PTH116 - one call for both
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # It may have been replaced in between.
        _refuse_irregular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path) -> str:
    """The text of a regular file in UTF-8.

    Raises:
        NotRegularFileError: It is a pipe, a socket, a device or a folder.
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    with open_regular(path) as file:
        return file.read().decode("utf-8")


def continues(stream: IO[bytes], offset: int, end: bytes) -> bool:
    """Whether a file holds ``end`` just before ``offset``: it is the one that was read so far.

    Raises:
        OSError: It cannot be read.
    """
    stream.seek(offset - len(end))
    return stream.read(len(end)) == end


def checked_inside(folder: Path, path: Path) -> Path:
    """A path in a folder, checked: no link in it leads out of the folder.

    Raises:
        NotRegularFileError: A link leads elsewhere, or in a circle.
    """
    try:
        resolved = path.resolve()
        # Python from 3.13 on leaves a circle of links as it is.
        is_inside = resolved.is_relative_to(folder.resolve()) and not resolved.is_symlink()
    except RuntimeError:
        # Python below 3.13 raises this for a circle of links.
        is_inside = False
    if not is_inside:
        raise NotRegularFileError(errno.ELOOP, "a link leads out of the run directory", str(path))
    return path


def irregular_kind(mode: int) -> str:
    """What a path with this mode is, with its article; empty for a regular file."""
    return next((name for is_kind, name in _NAMES if is_kind(mode)), "")


def _refuse_irregular(mode: int, path: Path) -> None:
    kind = irregular_kind(mode)
    if kind:
        raise NotRegularFileError(errno.EINVAL, f"it is {kind}, not a file", str(path))
