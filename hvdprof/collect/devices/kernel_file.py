"""Files of ``/proc`` and ``/sys`` that are read again and again.

Tested in ``tests/collect/devices/test_process_source.py`` and ``test_host_source.py``.
"""

import contextlib
import os
from pathlib import Path

_MOST_BYTES = 1 << 18


class KernelFile:
    """A file that stays open; it reads as empty where there is none.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self) -> str:
        """What it holds now."""
        if self._descriptor < 0:
            return ""
        try:
            return os.pread(self._descriptor, _MOST_BYTES, 0).decode("utf-8", "replace")
        except OSError:
            # Pressure that the kernel was not built to account for.
            return ""

    def rows(self) -> list[list[str]]:
        """Its lines as words."""
        return [line.split() for line in self.text().splitlines()]

    def numbers(self) -> dict[str, int]:
        """Its lines ``name number`` or ``name: number unit``."""
        return {
            row[0].rstrip(":"): int(row[1])
            for row in self.rows()
            if len(row) >= 2 and row[1].isdecimal()
        }

    def close(self) -> None:
        """Close it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
