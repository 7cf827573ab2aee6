"""What a command shows on standard error while it reads: a progress bar after two seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from hvdprof.cli.slow_hint import slow_hint

_QUIET_S = 2.0


class Told(Protocol):
    """What a reader calls while it works."""

    def __call__(self, file: str, done: int, total: int) -> None:
        """The file being read, the bytes read so far and the bytes of all files."""


@contextlib.contextmanager
def load_progress(paths: Sequence[Path]) -> Iterator[Told]:
    """A function for the ``progress`` of ``api.load_run``; the bar goes away in the end.

    Where a large timeline is about to be read without compiled code, that is told once.

    Args:
        paths: What was given to the command.
    """
    shown = _Shown()
    shown.hint(slow_hint(path for path in paths if path.is_dir()))
    try:
        yield shown.told
    finally:
        shown.stop()


class _Shown:
    """What stands on standard error while files are read."""

    def __init__(self) -> None:
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
        self._hinted = False

    def told(self, file: str, done: int, total: int) -> None:
        """As ``Told``."""
        if file != self._file:
            self._file = file
            self.hint(slow_hint([Path(file)]))
        if self._task is None:
            if not sys.stderr.isatty() or time.monotonic() - self._started < _QUIET_S:
                return
            self._bar.start()
            self._task = self._bar.add_task("", total=total)
        self._bar.update(self._task, description=f"Reading {file}", completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away, if it was shown."""
        if self._task is not None:
            self._bar.stop()

    def hint(self, text: str) -> None:
        """Print a hint, unless one was printed before."""
        if text and not self._hinted:
            self._hinted = True
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
