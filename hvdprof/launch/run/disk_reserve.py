"""Room that a run keeps for its last words: a full disk would not take its manifest."""

import os
from pathlib import Path

SIZE_BYTES = 1_000_000


def keep_room(path: Path) -> None:
    """Take room on the disk, for ``free_room`` to give back; nothing where there is none."""
    try:
        # What file systems compress takes no room.
        path.write_bytes(os.urandom(SIZE_BYTES))
    except OSError:
        # The run asks for space itself, and says that there is none.
        free_room(path)


def free_room(path: Path) -> bool:
    """Give the room back; whether there was any.

    Raises:
        OSError: The file cannot be removed.
    """
    was_there = path.exists()
    path.unlink(missing_ok=True)
    return was_there
