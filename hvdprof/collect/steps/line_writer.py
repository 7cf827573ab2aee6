"""The recorder file of a rank: whole lines, each handed to the kernel at once."""

import json
import os
from pathlib import Path
from typing import Any

MAX_BYTES = 2**29
"""Of a file to which steps are added: 300,000 steps of 161 gradients, some days of training."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class RecorderFile:
    """A new file that only grows, by one whole line a write.

    It belongs to the process that made it: in one that is forked off, writing does nothing.

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
        self._pid = os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._descriptor < 0

    @property
    def is_full(self) -> bool:
        """Whether it has reached ``MAX_BYTES``; it still takes what is written."""
        return self._size_bytes >= MAX_BYTES

    def write(self, kind: str, **values: Any) -> None:
        """Append one line; a line that does not fit as a whole is taken back.

        Raises:
            OSError: The disk is full, the file is closed, or the like.
        """
        if os.getpid() != self._pid:
            return
        # Names of files may hold what is no text.
        line = _encode({"kind": kind, **values}).encode("utf-8", "replace") + b"\n"
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
