"""What a command shows on standard error while it reads: a progress bar after two seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from hvdprof import api

_DELAY_S = 2.0


@contextlib.contextmanager
def load_progress(paths: Sequence[Path]) -> Iterator["api.ProgressCallback"]:
    """A function for the ``progress`` of ``api.load_run``; the bar is removed at the end.

    The first large timeline that is read without compiled code is named with what makes it
    faster. Tables that come from the cache need no reading, so they get neither bar nor hint.

    Args:
        paths: The arguments of the command; files of a folder among them are shown by their names
            in it.
    """
    shown = _Shown([path for path in paths if path.is_dir()])
    try:
        yield shown.update
    finally:
        shown.stop()


def _on_terminal() -> bool:
    return sys.stderr.isatty()


class _Shown:
    """The bar on standard error while files are read."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._started = time.monotonic()
        self._file = ""
        self._begun_at: int | None = None
        self._hinted = False

    def update(self, file: str, done: int, total: int) -> None:
        """Called with the file being read, the bytes read so far and the bytes of all files."""
        if file != self._file:
            self._file, self._begun_at = file, done
        elif self._begun_at is not None and done > self._begun_at:
            self._begun_at = None
            self._hint(api.slow_hint(Path(file)))
        if self._task is None:
            if not _on_terminal() or time.monotonic() - self._started < _DELAY_S:
                return
            self._bar.start()
            self._task = self._bar.add_task("", total=total)
        name = self._short(Path(file))
        self._bar.update(self._task, description=f"Reading {name}", completed=done, total=total)

    def stop(self) -> None:
        """Remove the bar, if it was shown, and say if numba failed meanwhile."""
        if self._task is not None:
            self._bar.stop()
        if self._file:
            self._hint(api.numba_refusal())

    def _short(self, file: Path) -> Path:
        for folder in self._folders:
            if file.is_relative_to(folder):
                return file.relative_to(folder)
        return file

    def _hint(self, text: str) -> None:
        if text and not self._hinted:
            self._hinted = True
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
