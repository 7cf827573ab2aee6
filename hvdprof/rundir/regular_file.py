"""Files of strangers: which names can be used, and only regular files are opened.

A named pipe without a writer blocks its reader, and ``/dev/zero`` never ends.
"""

import errno
import os
import re
import stat
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO

from hvdprof.errors import UnreadableInputError
from hvdprof.plain_text import printable

END_BYTES = 64
"""As much of what was read last is compared, before more is read of a file."""

_NAMES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_LONGEST_NAME_BYTES = 255
_LONGEST_HOST_NAME = 253
_NOT_PLAIN = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")
_HOST_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_:][\w.:-]*", re.ASCII)
_stand_ins: dict[str, str] = {}


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


def check_plain(name: str, what: str) -> None:
    """Check that a name can be that of one file or folder, and no place elsewhere.

    Raises:
        ValueError: It is empty, too long, ``.`` or ``..``, or has a slash or a control character.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if name in ("", ".", "..") or size > _LONGEST_NAME_BYTES or _NOT_PLAIN.search(name):
        raise ValueError(f"{what} {_shown(name)} is no plain name")


def check_relative(path: str, what: str) -> None:
    """Check that a path consists of plain names, so that it stays below the folder it is joined to.

    Raises:
        ValueError: It is absolute, or a part of it is no plain name.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/"):
        raise ValueError(f"{what} {_shown(path)} is no relative path")
    for part in parts:
        check_plain(part, what)


def is_host_name(name: str) -> bool:
    """Whether a text can be a host on a command line: a name, an address, or ``user@name``."""
    return len(name) <= _LONGEST_HOST_NAME and _HOST_NAME.fullmatch(name) is not None


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 60 else f"{name[:60]}...")


def shown_name(path: Path) -> str:
    """The name of a file for tables and messages; always text that UTF-8 can encode."""
    name = str(path)
    for folder, stands_for in _stand_ins.items():
        if name == folder or name.startswith(folder + os.sep):
            name = stands_for + name[len(folder) :]
            break
    return printable(name)


def show_as(path: Path, name: str) -> None:
    """Show a path, and all paths below it, as another name from now on."""
    _stand_ins[str(path)] = name


def show_as_they_are(folder: Path) -> None:
    """Show the paths below a folder that is removed by their own names again."""
    for name in [name for name in _stand_ins if Path(name).is_relative_to(folder)]:
        del _stand_ins[name]


def unreadable(path: Path, error: OSError) -> UnreadableInputError:
    """The error for a path that cannot be looked at or read."""
    return UnreadableInputError(f"{shown_name(path)} cannot be read: {error.strerror or error}.")
