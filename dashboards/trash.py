"""The trash folder beside runs: what may be moved there, and where it goes.

Tested in ``tests/dashboards/test_trash.py``.
"""

import os
import stat
from pathlib import Path

from hvdprof.errors import UnreadableInputError, UsageError

TRASH = ".trash"


def move_beside(path: Path) -> Path:
    """Move a run directory into the folder ``.trash`` beside it, and return its new place.

    Raises:
        UsageError: The run, or the trash folder, belongs to another user.
        UnreadableInputError: It cannot be moved.
    """
    folder = path.parent / TRASH
    target, number = folder / path.name, 1
    try:
        if path.stat().st_uid != os.geteuid():
            raise UsageError(f"{path} belongs to another user.")
        if not os.path.lexists(folder):
            folder.mkdir(mode=0o700)
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            raise UsageError(
                f"{folder} is no folder of your own.", hint="Remove it, or delete the run by hand."
            )
        while os.path.lexists(target):
            number += 1
            target = folder / f"{path.name} ({number})"
        path.rename(target)
    except OSError as error:
        raise UnreadableInputError(f"Could not move {path}: {error.strerror}.") from error
    return target
