"""What a command shows on standard error while it reads: a progress bar after two seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from hvdprof.cli.progress.slow_hint import slow_hint

_QUIET_S = 2.0


class Told(Protocol):
    """What a reader calls while it works."""

    def __call__(self, file: str, done: int, total: int) -> None:
        """The file being read, the bytes read so far and the bytes of all files."""


@contextlib.contextmanager
def load_progress(paths: Sequence[Path]) -> Iterator[Told]:
    """A function for the ``progress`` of ``api.load_run``; the bar goes away in the end.

    Where a large timeline is being read without compiled code, that is told once; not where its
    tables are kept from an earlier time, because nothing of it is read then.

    Args:
        paths: What was given to the command: files in a folder among it go by their names in it.
    """
    shown = _Shown([path for path in paths if path.is_dir()])
    try:
        yield shown.told
    finally:
        shown.stop()


def _on_terminal() -> bool:
    return sys.stderr.isatty()


class _Shown:
    """What stands on standard error while files are read."""

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

    def told(self, file: str, done: int, total: int) -> None:
        """As ``Told``."""
        if file != self._file:
            self._file, self._begun_at = file, done
        elif self._begun_at is not None and done > self._begun_at:
            self._begun_at = None
            self._hint(slow_hint(Path(file)))
        if self._task is None:
            if not _on_terminal() or time.monotonic() - self._started < _QUIET_S:
                return
            self._bar.start()
            self._task = self._bar.add_task("", total=total)
        name = self._short(Path(file))
        self._bar.update(self._task, description=f"Reading {name}", completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away, if it was shown."""
        if self._task is not None:
            self._bar.stop()

    def _short(self, file: Path) -> Path:
        for folder in self._folders:
            if file.is_relative_to(folder):
                return file.relative_to(folder)
        return file

    def _hint(self, text: str) -> None:
        if text and not self._hinted:
            self._hinted = True
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
