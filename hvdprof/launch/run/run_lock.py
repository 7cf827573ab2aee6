"""A lock on a run directory: two processes that measure into it would mix their results."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hvdprof.errors import UsageError


@contextlib.contextmanager
def exclusive_run(folder: Path) -> Iterator[None]:
    """Lock a run directory within the block; the lock ends with the process at the latest.

    There is no lock where there is no such folder, or where its file system has none, as some
    network file systems: there the user has to take care.

    Raises:
        UsageError: Another process holds the lock.
    """
    with contextlib.ExitStack() as lock:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            lock.callback(os.close, handle)
            _lock(handle, folder)
        yield


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            f"Another hvdprof is measuring into {folder}.",
            hint="Wait for its end, or end it, then resume with --resume.",
        ) from error
