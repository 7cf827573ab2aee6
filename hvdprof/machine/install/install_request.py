"""What ``install-horovod`` is asked for, what it reports meanwhile, and what it answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.install.verify import Trial


class Progress(Protocol):
    """Shows the progress of an installation."""

    def stage(self, words: str) -> None:
        """A stage begins, ``'compiling'``."""

    def fraction(self, done: float) -> None:
        """How much of the compiling is done, 0..1."""

    def note(self, words: str) -> None:
        """Something that the user should know, one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """What the user wants.

    ``mpi`` is ``None`` for "with MPI where it can be had"; ``jobs`` is ``None`` for as many as
    cores and memory allow; ``force`` builds anew in any case; ``keep_wheel`` is whether the
    cache is read and filled; ``wheel_folder`` gets a copy of the wheel. ``tensorflow`` builds for
    TensorFlow too, and for it alone where torch is not installed.
    """

    gpu: bool = False
    mpi: bool | None = None
    force: bool = False
    keep_wheel: bool = True
    jobs: int | None = None
    wheel_folder: Path | None = None
    tensorflow: bool = False


@dataclass(frozen=True, slots=True)
class InstallResult:
    """What was done: ``source`` is ``'present'``, ``'cache'`` or ``'built'``."""

    build: HorovodBuild
    source: str
    wheel: Path | None
    log: Path
    trials: list[Trial]
    seconds: float
