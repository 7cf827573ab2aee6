"""The recorder file of a rank: whole lines."""

import os
import threading
from pathlib import Path

from hvdprof.rundir.recording.recorder_codec import to_bytes
from hvdprof.rundir.recording.recorder_format import RecorderLine
from hvdprof.rundir.written_file import make_run_folders, open_descriptor

MAX_BYTES = 2**29
"""Of a file to which steps are added: 300,000 steps of 161 gradients, some days of training."""


class LineWriter:
    """A new recorder file that only grows, by whole lines.

    It belongs to the process that made it: in a forked process, writing does nothing.

    Args:
        path: The file.
        is_new: Whether it must not exist.

    Raises:
        FileExistsError: The file exists: another process takes itself for this rank, or an earlier
            run wrote into the same folder. Two mixed recordings could not be separated.
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path, *, is_new: bool = True) -> None:
        make_run_folders(path.parent)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_EXCL if is_new else 0)
        self._descriptor = open_descriptor(path, flags)
        self._size_bytes = 0 if is_new else os.fstat(self._descriptor).st_size
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the file takes no more lines."""
        return self._descriptor < 0

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return self._size_bytes

    @property
    def is_full(self) -> bool:
        """Whether it has reached ``MAX_BYTES``; it still takes what is written."""
        return self._size_bytes >= MAX_BYTES

    def write(self, *lines: RecorderLine) -> None:
        """Append lines with one call of the system; of a line that does not fit nothing stays.

        Raises:
            OSError: The disk is full, the file is closed, or the like.
        """
        if os.getpid() != self._pid:
            return
        data = b"".join(map(to_bytes, lines))
        # The watchdog's thread writes, too.
        with self._lock:
            written = os.write(self._descriptor, data)
            if written == len(data):
                self._size_bytes += written
                return
            self._size_bytes += data.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._descriptor, self._size_bytes)
        # The kernel writes a part only when the disk is full.
        raise OSError(f"disk full: only {written} of {len(data)} bytes fitted into {self.path}")

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
