"""The whole lines that were added to a file since the last look."""

import os
from pathlib import Path

from hvdprof.rundir.regular_file import END_BYTES, continues, open_regular

_AT_ONCE = 1 << 23
"""Bytes; the rest follows with the next look."""

_LONGEST_LINE = 1 << 24


class FileTail:
    """Follows a file that another process appends to, on a network file system too.

    A file that became shorter, or another one under its name, is read from its begin; a copy of
    the same file is read on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._inode = 0
        self._end = b""
        self.is_behind = False
        """Whether more was there than one look reads."""

    @property
    def is_torn(self) -> bool:
        """Whether the last line that was read has no end yet."""
        return bool(self._rest)

    def lines(self) -> list[bytes]:
        """New lines without their ends; none while the file cannot be read."""
        try:
            with open_regular(self._path) as stream:
                facts = os.fstat(stream.fileno())
                is_other = facts.st_size < self._offset or (
                    facts.st_ino != self._inode and not continues(stream, self._offset, self._end)
                )
                if is_other:
                    self._offset, self._rest, self._end = 0, b"", b""
                self._inode = facts.st_ino
                stream.seek(self._offset)
                added = stream.read(_AT_ONCE)
        except OSError:
            # Not there yet, or not over a network just now: the next look continues.
            self.is_behind = False
            return []
        self._offset += len(added)
        self._end = (self._end + added[-END_BYTES:])[-END_BYTES:]
        self.is_behind = self._offset < facts.st_size
        *whole, rest = (self._rest + added).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        return whole
