"""A progress bar on standard error for files that take more than two seconds to read."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_QUIET_S = 2.0


class Told(Protocol):
    """What a reader calls while it works."""

    def __call__(self, file: str, done: int, total: int) -> None:
        """The file being read, the bytes read so far and the bytes of all files."""


@contextlib.contextmanager
def load_progress() -> Iterator[Told]:
    """A function for the ``progress`` of ``api.load_run``; the bar goes away in the end."""
    started = time.monotonic()
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task: TaskID | None = None

    def told(file: str, done: int, total: int) -> None:
        nonlocal task
        if task is None:
            if not sys.stderr.isatty() or time.monotonic() - started < _QUIET_S:
                return
            bar.start()
            task = bar.add_task("", total=total)
        bar.update(task, description=f"Reading {file}", completed=done, total=total)

    try:
        yield told
    finally:
        if task is not None:
            bar.stop()
