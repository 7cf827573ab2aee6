"""One hvdprof at a time measures into a run directory: two would mix their results up."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hvdprof.errors import UsageError


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keep a run directory to this process within the block; it may end in any way.

    Nothing is kept where there is no such folder, or where its file system locks none, as some of
    a network do: there it is up to the user.

    Raises:
        UsageError: Another process has it.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, handle)
            _lock(handle, folder)
        yield


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            f"Another hvdprof is measuring into {folder}.",
            hint="Wait for its end, or end it; then --resume goes on.",
        ) from error
