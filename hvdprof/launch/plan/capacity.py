"""What hosts offer a job, and whether its ranks find cores or GPUs of their own there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hvdprof.launch.plan.settings import Settings

Placement = Mapping[str, int]
"""Ranks of each host, by its name."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the hosts of a job offer.

    ``cores_by_host`` and ``gpus_by_host`` count what a host offers, None where that is only known
    once ranks run there; ``nccl`` says that gradients are reduced by NCCL.
    """

    cores_by_host: Mapping[str, int | None]
    gpus_by_host: Mapping[str, int | None]
    nccl: bool


@dataclass(frozen=True, slots=True)
class Crowd:
    """An oversubscribed host: fewer GPUs than ranks, or fewer cores than threads."""

    host: str
    offered: int
    wanted: int


def crowds(settings: Settings, capacity: Capacity, placed: Placement) -> list[Crowd]:
    """The hosts that get more ranks than they have GPUs, or more threads than they have cores.

    A host of which that is not known counts as having enough.
    """
    on_gpus = settings.device == "cuda"
    offers = capacity.gpus_by_host if on_gpus else capacity.cores_by_host
    each = 1 if on_gpus else settings.num_threads
    wants = ((host, offers.get(host), ranks * each) for host, ranks in placed.items())
    return [
        Crowd(host, offered, wanted)
        for host, offered, wanted in wants
        if offered is not None and wanted > offered
    ]


def can_pin(settings: Settings, capacity: Capacity, placed: Placement, *, timeline: bool) -> bool:
    """Whether every rank can have as many cores of its own as it has threads.

    A host whose cores are not known leaves the decision to its ranks.
    """
    # Horovod's timeline writer spins on a core of its own: on a rank's core it would halve it.
    spare = 1 if timeline else 0
    return all(
        (cores := capacity.cores_by_host.get(host)) is None
        or ranks * settings.num_threads + spare <= cores
        for host, ranks in placed.items()
    )


def threads_that_fit(
    placements: Iterable[Placement], cores_by_host: Mapping[str, int | None]
) -> int:
    """Threads per rank so that the largest job that fits has them all on cores of their own.

    They are the same at every size: a baseline with more threads per rank would make every larger
    size look like a loss. The host with the fewest cores for each of its ranks decides.

    Args:
        placements: The ranks of each host, from the smallest job to the largest.
        cores_by_host: The cores of each host; one that is not known decides nothing.
    """
    shares = (_share(placed, cores_by_host) for placed in reversed(list(placements)))
    return next(filter(None, shares), 1)


def _share(placed: Placement, cores_by_host: Mapping[str, int | None]) -> int:
    known = ((cores_by_host.get(host), ranks) for host, ranks in placed.items())
    return min((cores // ranks for cores, ranks in known if cores is not None), default=0)
