"""Files of a cache are used only where no stranger could have put them there.

Trusted are files of this user and of root, and beside a file those of its owner, who decides what
that file says anyway. No other user may be able to write to them, and no link is followed. In a
folder that everyone may write to, files could have been exchanged; one of a group is accepted,
because many machines give each user a group of their own.
"""

import os
import stat
from io import BufferedReader
from pathlib import Path

from hvdprof.rundir.regular_file import NotRegularFileError

_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFileError(OSError):
    """A file of a cache that someone else may have written."""


def open_trusted(path: Path, *, beside: Path | None = None) -> BufferedReader:
    """A file of a cache, opened for its bytes.

    Args:
        path: The file.
        beside: The file whose owner is trusted too.

    Raises:
        UntrustedFileError: Another user owns it, others may write to it, everyone may write to its
            folder, or it is a link.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise UntrustedFileError(error.errno, "it is a link", str(path)) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularFileError(None, "it is no file", str(path))
        if status.st_uid not in _trusted(beside):
            raise UntrustedFileError(None, "it belongs to another user", str(path))
        if status.st_mode & _OF_OTHERS:
            raise UntrustedFileError(None, "other users may write to it", str(path))
        if path.parent.stat().st_mode & stat.S_IWOTH:
            raise UntrustedFileError(None, "everyone may write to its folder", str(path))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def is_trusted(path: Path) -> bool:
    """Whether ``open_trusted`` opens a file."""
    try:
        open_trusted(path).close()
    except OSError:
        return False
    return True


def trusted_folder(folder: Path, *, beside: Path | None = None) -> bool:
    """Whether a folder is there, or was made, for files of a cache.

    It is no link, its owner is trusted, and not everyone may write to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    is_open = bool(status.st_mode & stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in _trusted(beside) and not is_open


def stranger_at(path: Path) -> str:
    """Why another user could exchange what lies at a path, or lie in wait there; else empty.

    The folder that holds it, or would, has to be this user's or root's. Not everyone may write to
    it, unless its sticky bit keeps them from what is not theirs.
    """
    real = Path(os.path.realpath(path))
    if path.is_symlink() and path.lstat().st_uid not in _trusted(None):
        return f"{path} is a link of another user"
    there = [place for place in (real, *real.parents) if place.exists()]
    for place in there[: 2 if there[0] == real else 1]:
        status = place.stat()
        if status.st_uid not in _trusted(None):
            return f"{place} belongs to another user"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"every user may write to {place}"
    return ""


def let_only_owner_write(path: Path) -> None:
    """Take away the right of others to write to a file.

    Raises:
        OSError: It cannot be changed.
    """
    path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~_OF_OTHERS)


def _trusted(beside: Path | None) -> set[int]:
    owners = {os.geteuid(), 0}
    return owners if beside is None else owners | {beside.stat().st_uid}
