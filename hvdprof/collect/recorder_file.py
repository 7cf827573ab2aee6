"""The recorder file of a rank: whole lines, each handed to the kernel at once."""

import json
import os
from pathlib import Path
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class RecorderFile:
    """A new file that only grows, by one whole line a write.

    Raises:
        FileExistsError: There is one already: another process takes itself for this rank, or an
            earlier run wrote into the same folder. Two mixed recordings could not be told apart.
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(path, flags, 0o666)
        self._size_bytes = 0

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._descriptor < 0

    def write(self, kind: str, **values: Any) -> None:
        """Append one line; a line that does not fit as a whole is taken back.

        Raises:
            OSError: The disk is full, the file is closed, or the like.
        """
        line = _encode({"kind": kind, **values}).encode("utf-8") + b"\n"
        written = os.write(self._descriptor, line)
        if written < len(line):
            os.ftruncate(self._descriptor, self._size_bytes)
            # What the kernel does when the disk is full, and then only.
            raise OSError(f"disk full: only {written} of {len(line)} bytes fitted into {self.path}")
        self._size_bytes += written

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
