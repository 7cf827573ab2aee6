"""Hosts and their slots, where the ranks go, and what there is for them: cores, GPUs, memory."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hvdprof.collect.clock.clock_exchange import own_addresses
from hvdprof.errors import UsageError
from hvdprof.launch.plan.settings import Resolved, Settings
from hvdprof.rundir.regular_file import is_host_name

Placement = Mapping[str, int]
"""Ranks of each host, by its name."""

PROCESS_BYTES = 600 * 2**20
"""Python, torch, Horovod and the activations of small images."""

BYTES_PER_PARAMETER = 32
"""Weight, gradient, momentum, fusion buffer and what torch holds in reserve, twice over."""

GROWTH = 1.5
"""A rank that has just begun may take so much more later."""

USABLE_SHARE = 0.7
"""The rest is for the page cache and other processes."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host and the number of ranks it takes.

    An option, a discovery script or Slurm names it, and it stands on command lines of
    remote shells.

    Raises:
        UsageError: The name is none of a host.
    """

    name: str
    slots: int

    def __post_init__(self) -> None:
        """Refuse what a remote shell would take as an option or as more than a name."""
        if not is_host_name(self.name):
            raise UsageError(
                f"{self.name[:80]!a} is not the name of a host.",
                hint="Letters, digits and . - _ : @ make a name; it does not begin with -.",
            )


def parse_hosts(text: str) -> tuple[Host, ...]:
    """The hosts of ``h1:4,h2:4``; a name without a number has one slot.

    Raises:
        UsageError: A part is not ``name:slots`` with at least one slot, or a name stands twice.
    """
    hosts = tuple(_parse_host(part.strip(), text) for part in text.split(","))
    names = [host.name for host in hosts]
    if len(set(names)) < len(names):
        raise UsageError(f"--hosts {text} names a host twice.", hint="Add its slots up.")
    return hosts


def ranks_by_host(hosts: tuple[Host, ...], size: int) -> dict[str, int]:
    """How many of ``size`` ranks each host gets when they are filled in order; empty ones left out.

    The order is that of Horovod and of ``mpirun --map-by slot``.
    """
    placed: dict[str, int] = {}
    for host in hosts:
        ranks = min(host.slots, size - sum(placed.values()))
        if ranks > 0:
            placed[host.name] = ranks
    return placed


def is_this_host(name: str) -> bool:
    """Whether a name or an address means the host of this process."""
    own = socket.gethostname()
    if name in ("localhost", own, own.split(".")[0]):
        return True
    try:
        address = socket.gethostbyname(name)
    except OSError:
        # Known to ssh alone, by an alias of its configuration.
        return False
    return address.startswith("127.") or address in own_addresses()


def _parse_host(part: str, text: str) -> Host:
    name, _, slots = part.rpartition(":") if ":" in part else (part, "", "1")
    if not is_host_name(name) or not slots.isdecimal() or int(slots) < 1:
        raise UsageError(
            f"--hosts {text}: {part!r} is not a host with its slots.",
            hint="Write it like Horovod does: --hosts server1:4,server2:4",
        )
    return Host(name, int(slots))


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


def have_room(used_bytes: int, num_ranks: int, num_more: int, available_bytes: int | None) -> bool:
    """Whether more ranks fit beside those that run, each as large; not where unknown.

    Args:
        used_bytes: The memory of the ranks that run.
        num_ranks: Their number.
        num_more: The ranks that are to start.
        available_bytes: The memory that new processes can have now.
    """
    if available_bytes is None:
        return False
    return GROWTH * used_bytes / num_ranks * num_more <= USABLE_SHARE * available_bytes


def fit_together(num_ranks: int, num_parameters: int, available_bytes: int | None) -> bool:
    """Whether that many ranks can be resident; not where the memory is unknown.

    The estimate is on the high side: a host that swaps measures nothing.

    Args:
        num_ranks: The ranks of all launches.
        num_parameters: Those of the largest model.
        available_bytes: The memory that new processes can have.
    """
    if available_bytes is None:
        return False
    each_bytes = PROCESS_BYTES + BYTES_PER_PARAMETER * num_parameters
    return num_ranks * each_bytes <= USABLE_SHARE * available_bytes


def lacks_slots(settings: Settings, size: int) -> str:
    """Why hosts that are named have no room for a size; empty where they do."""
    if settings.hosts and sum(host.slots for host in parse_hosts(settings.hosts)) < size:
        return f"--hosts {settings.hosts} has fewer than {size} slots"
    return ""


def placement(settings: Resolved, size: int) -> dict[str, int]:
    """How many ranks each host gets at a size; this host is ``localhost`` where none are named."""
    if settings.hosts is None:
        return {"localhost": size}
    return ranks_by_host(parse_hosts(settings.hosts), size)


def hosts_argument(settings: Settings, size: int) -> str | None:
    """The hosts of a launch with just the slots that it fills, None for this host alone.

    `horovodrun` starts a rank in every slot of `-H`, more than `-np` if there are more.
    """
    if settings.hosts is None:
        return None
    return ",".join(f"{host}:{ranks}" for host, ranks in placement(settings, size).items())
