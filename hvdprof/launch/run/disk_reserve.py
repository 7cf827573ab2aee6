"""Disk space that a run reserves for its last manifest, in case the disk fills up."""

import os
from pathlib import Path

from hvdprof.rundir.run_file import append_run_bytes

SIZE_BYTES = 1_000_000


def hold_disk_reserve(path: Path) -> None:
    """Take space on the disk until ``release_disk_reserve``; none where the disk is full."""
    try:
        # File systems that compress would reserve nothing for zeros.
        with append_run_bytes(path) as file:
            file.write(os.urandom(SIZE_BYTES))
    except OSError:
        # The run checks the space itself and reports that there is none.
        release_disk_reserve(path)


def release_disk_reserve(path: Path) -> bool:
    """Give the reserve back; whether there was one.

    Raises:
        OSError: The file cannot be removed.
    """
    was_there = path.exists()
    path.unlink(missing_ok=True)
    return was_there
