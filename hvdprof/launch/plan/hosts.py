"""Hosts and their slots, as Horovod's ``-H`` spells them, and where the ranks go."""

import socket
from dataclasses import dataclass

from hvdprof.collect.clock.clock_exchange import own_addresses
from hvdprof.errors import UsageError
from hvdprof.rundir.plain_names import is_host_name


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
