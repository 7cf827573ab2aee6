"""The lock on a run directory: two that measure into it would mix their results.

Readers of a run see by it whether the run is still measured: the status in a manifest outlives a
writer that was killed. Not every file system has locks, those of a network file system may end at
the host, and a copy of a run has none: there the recent changes of its files decide.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.rundir.layout import MANIFEST_NAME

RECENT_S = 600.0
"""Longer than a running job leaves its files as they are."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_WAITS_S = (0.02, 0.1, 0.3, 0.0)
"""A reader holds its lock for less."""

_handed_on: dict[tuple[int, int], tuple[int, "Writer"]] = {}
"""Open folders by device and inode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who measures into a run directory.

    ``kernel`` is the host, since its last boot, on which the lock holds; empty where there is none.
    ``inode`` is that of the directory, which a copy of it does not have.
    """

    kernel: str = ""
    inode: int = 0


@contextlib.contextmanager
def exclusive_run(folder: Path, *, keep: bool = False) -> Iterator[Writer]:
    """Lock a run directory within the block; the lock ends with the process at the latest.

    There is no lock where there is no such folder, or where its file system has none: there the
    user has to take care.

    Args:
        folder: The run directory.
        keep: Keep the lock after a block without an error, for the next one of this process.

    Raises:
        UsageError: Another process holds the lock.
    """
    handle, writer = _locked(folder)
    with contextlib.ExitStack() as opened:
        if handle is not None:
            opened.callback(os.close, handle)
        yield writer
        if keep and handle is not None:
            opened.pop_all()
            _handed_on[_place(handle)] = handle, writer


def is_written(folder: Path, writer: Writer | None) -> bool:
    """Whether a process still measures into a run directory whose manifest says so."""
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        handle = _opened(folder)
        opened.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            # No locks here: neither had the writer one.
            pass
        else:
            if writer is not None and writer.kernel and writer.kernel == _kernel():
                return False
        if writer is not None and writer.inode != os.fstat(handle).st_ino:
            return False
    since = time.time() - RECENT_S
    of_passes = (folder.glob(pattern) for pattern in ("passes/*/*", "passes/*/recorder/*"))
    for path in chain([folder / MANIFEST_NAME], *of_passes):
        with contextlib.suppress(OSError):
            about = path.lstat()
            # A reader leaves its cache in folders.
            if stat.S_ISREG(about.st_mode) and about.st_mtime > since:
                return True
    return False


def _locked(folder: Path) -> tuple[int | None, Writer]:
    """The open folder with the lock on it; None where there is no such folder."""
    try:
        handle = _opened(folder)
    except OSError:
        return None, Writer()
    place = _place(handle)
    if place in _handed_on:
        os.close(handle)
        return _handed_on.pop(place)
    try:
        has_lock = _lock(handle, folder)
    except UsageError:
        os.close(handle)
        raise
    return handle, Writer(kernel=_kernel() if has_lock else "", inode=place[1])


def _lock(handle: int, folder: Path) -> bool:
    """Lock an open folder; False where its file system has no locks."""
    for wait_s in _WAITS_S:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(wait_s)
        except OSError:
            return False
        else:
            return True
    raise UsageError(
        f"Another hvdprof is measuring into {folder}.",
        hint="Wait for its end, or end it, then resume with --resume.",
    )


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _place(handle: int) -> tuple[int, int]:
    about = os.fstat(handle)
    return about.st_dev, about.st_ino


def _kernel() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
