"""A temporary folder for copies of streams and for the files of archives."""

import atexit
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Never, Self

from hvdprof.rundir.file_names import show_as_they_are

MOST_BYTES = 4_000_000_000
"""So much of a stream or an archive is written to disk at most."""

_LEFT_FREE_BYTES = 500_000_000
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class _Folders:
    """The number of folders that this process has to remove yet, at its end at the latest."""

    num_open = 0
    lock = threading.Lock()


class Workspace:
    """A folder that is made when it is needed first, and removed when the block ends."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._num_parts = 0

    def __enter__(self) -> Self:
        """Start; nothing is written yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the folder, unless ``keep`` was called."""
        if self._folder is not None:
            show_as_they_are(Path(self._folder.name))
            try:
                self._folder.cleanup()
            finally:
                _release_signals()

    def new_folder(self) -> Path:
        """A new empty folder."""
        if self._folder is None:
            _catch_signals()
            try:
                self._folder = tempfile.TemporaryDirectory(prefix="hvdprof-")
            except OSError:
                _release_signals()
                raise
        self._num_parts += 1
        folder = Path(self._folder.name) / str(self._num_parts)
        folder.mkdir(mode=0o700)
        return folder

    def most_bytes(self) -> int:
        """The bytes that may be written now: a limit, or less where the disk has less room."""
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return max(min(MOST_BYTES, free - _LEFT_FREE_BYTES), 0)

    def holds(self, path: Path) -> bool:
        """Whether a path lies in this folder."""
        return self._folder is not None and path.is_relative_to(self._folder.name)

    def part_of(self, path: Path) -> Path | None:
        """The folder of ``new_folder`` in which a path lies; None where it lies elsewhere."""
        if self._folder is None:
            return None
        top = Path(self._folder.name)
        return next((parent for parent in path.parents if parent.parent == top), None)

    def keep(self) -> None:
        """Remove the folder at the end of the process, for its files are still needed.

        The signals that end the process stay caught until then.
        """
        if self._folder is not None:
            atexit.register(self._folder.cleanup)
            self._folder = None


def _catch_signals() -> None:
    """Let signals that would leave the folder behind end the process as an exception does."""
    with _Folders.lock:
        _Folders.num_open += 1
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            # Nohup has SIGHUP ignored, and the program may have handlers of its own.
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end_in_order)


def _release_signals() -> None:
    """Leave the signals to the system again after the last folder, where the thread may do so."""
    with _Folders.lock:
        _Folders.num_open -= 1
        if _Folders.num_open or threading.current_thread() is not threading.main_thread():
            return
    for number in _SIGNALS:
        if signal.getsignal(number) is _end_in_order:
            signal.signal(number, signal.SIG_DFL)


def _end_in_order(number: int, frame: FrameType | None) -> Never:
    raise SystemExit(128 + number)
