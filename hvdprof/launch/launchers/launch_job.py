"""One launch of the training processes, and what a launcher makes of it."""

from dataclasses import dataclass
from typing import Protocol

from hvdprof.rundir.plan import HOROVOD_ENGINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program to run in ``size`` ranks.

    ``hosts`` is Horovod's ``h1:4,h2:4`` or None for this host alone; ``environment`` is what is
    set on top of the inherited one and must reach every rank; ``passed_on`` are names of
    inherited variables that must reach ranks on other hosts too. ``engine`` is what the ranks
    exchange gradients by.
    """

    size: int
    program: tuple[str, ...]
    hosts: str | None
    environment: dict[str, str]
    passed_on: tuple[str, ...]
    device: str
    engine: str = HOROVOD_ENGINE


class Launcher(Protocol):
    """Turns a job into the argument list of the program that starts its ranks."""

    def command(self, job: Job) -> list[str]:
        """The argument list; pure, nothing is started or looked up."""
