"""A temporary folder for copies of streams and for the files of archives."""

import atexit
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Never, Self

MOST_BYTES = 4_000_000_000
"""So much of a stream or an archive is written to disk at most."""

_LEFT_FREE_BYTES = 500_000_000


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
            self._folder.cleanup()
            if signal.getsignal(signal.SIGTERM) is _end_in_order:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def new_folder(self) -> Path:
        """A new empty folder."""
        if self._folder is None:
            _catch_sigterm()
            self._folder = tempfile.TemporaryDirectory(prefix="hvdprof-")
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

    def keep(self) -> None:
        """Remove the folder at the end of the process, for its files are still needed."""
        if self._folder is not None:
            atexit.register(self._folder.cleanup)
            self._folder = None


def _catch_sigterm() -> None:
    """Let SIGTERM, which would leave the folder behind, end the process as an exception does."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end_in_order)


def _end_in_order(number: int, frame: FrameType | None) -> Never:
    raise SystemExit(128 + number)
