"""Which files come from this user: those of private caches, and what the user's key has signed.

Trusted are files of this user and of root, and beside a file those of its owner, who decides what
that file says anyway. No other user may be able to write to them, and no link is followed. In a
folder that everyone may write to, files could have been exchanged; one of a group is accepted,
because many machines give each user a group of their own.

The key lies where programs keep their state (XDG base directories), readable by its owner alone.
"""

import contextlib
import hmac
import os
import stat
import tempfile
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from hvdprof.rundir.regular_file import NotRegularFileError

_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_KEY_BYTES = 32


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


def seal(content: bytes) -> str:
    """What only this user's hvdprof can add to a content; empty where the key cannot be kept."""
    key = _key() or _new_key()
    return hmac.digest(key, content, "sha256").hex() if key else ""


def is_sealed(content: bytes, stated: str) -> bool:
    """Whether ``seal`` of this user gave that for the content."""
    key = _key()
    if not key:
        return False
    return hmac.compare_digest(hmac.digest(key, content, "sha256").hex().encode(), stated.encode())


def key_file(environment: Mapping[str, str] = os.environ) -> Path:
    """``XDG_STATE_HOME``/hvdprof/key, else ``~/.local/state/hvdprof/key``."""
    base = Path(environment.get("XDG_STATE_HOME", ""))
    # The XDG base directory specification: a relative path is invalid and is ignored.
    root = base if base.is_absolute() else Path("~/.local/state").expanduser()
    return root / "hvdprof" / "key"


def _key() -> bytes:
    """The key; empty where there is none that only this user can read."""
    try:
        with open_trusted(key_file()) as file:
            is_open = os.fstat(file.fileno()).st_mode & 0o077
            key = b"" if is_open else file.read(_KEY_BYTES + 1)
    except (OSError, RuntimeError):
        return b""
    return key if len(key) == _KEY_BYTES else b""


def _new_key() -> bytes:
    """A key that was made now, or by another process at the same time; empty without a place."""
    path = key_file()
    temporary = ""
    try:
        if not trusted_folder(path.parent):
            return b""
        # Its mode is 0600.
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except (OSError, RuntimeError):
        # A home that cannot be written to, or none.
        return b""
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
    return _key()
