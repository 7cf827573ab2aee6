"""How each rank's monotonic clock relates to rank 0's.

Processes of one boot of one host share the monotonic clock, so there the offset is exactly 0.
Other hosts ask rank 0 over TCP (``clock_ping``); the lowest rank of such a host asks for all of
them.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hvdprof.collect.clock.clock_ping import Clock, PingServer, ping
from hvdprof.collect.clock.handshake import Offer
from hvdprof.collect.host_facts import boot_id
from hvdprof.rundir.recording.recorder_format import SAME_CLOCK, TCP

T = TypeVar("T")

_SIOCGIFADDR = 0x8915
_MAX_ADDRESSES = 16
_MAX_REASON = 500
_BASE_TIMEOUT_S = 10.0
_TIMEOUT_PER_ASKER_S = 0.3

Host = tuple[str, str]

Sent = dict[str, Any] | str
"""Fields of an ``Offer`` or a ``PingResult``, or the reason why there is none."""


class AllGather(Protocol):
    """Passes values that JSON can hold between ranks."""

    def __call__(self, value: T, /) -> list[T]:
        """The values of all ranks by rank; tuples come back as lists.

        Raises:
            OSError: Another rank did not make the same call in time.
        """


@dataclass(frozen=True, slots=True)
class RankGroup:
    """The ranks of a job and how they exchange small values; every rank makes the same calls."""

    rank: int
    size: int
    all_gather: AllGather


def single_rank() -> RankGroup:
    """A group of one rank, which exchanges values with itself."""

    def alone(value: T, /) -> list[T]:
        return [value]

    return RankGroup(0, 1, alone)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """``rank 0's clock = own clock + offset_ns``, off by at most ``error_ns``."""

    method: str
    monotonic_ns: int
    offset_ns: int
    error_ns: int
    min_rtt_ns: int
    num_exchanges: int


class ClockExchange:
    """The exchange of one job; made and run by all ranks together.

    Raises:
        OSError: Another rank did not take part in time.

    Args:
        group: The ranks.
        force_tcp: Let every rank but 0 ask over TCP, on the host of rank 0 too.
        host: What identifies this host's clock; ranks with equal values share one.
        clock: The monotonic clock, ns.
        timeout_s: How long an exchange may take on top of 0.3 s for each asking rank.
    """

    def __init__(
        self,
        group: RankGroup,
        *,
        force_tcp: bool = False,
        host: Host | None = None,
        clock: Clock = time.monotonic_ns,
        timeout_s: float = _BASE_TIMEOUT_S,
    ) -> None:
        self._group = group
        self._clock = clock
        own = [*(host or clock_identity()), socket.gethostname()]
        identities = group.all_gather(own) if group.size > 1 else [own]
        hosts = [(boot, namespace) for boot, namespace, _ in identities]
        # Containers of one machine share its clock but not its loopback addresses.
        self._one_host = all(identity == identities[0] for identity in identities)
        self._asker_of = _askers(hosts, force_tcp)
        self._askers = sorted(set(self._asker_of.values()))
        self._timeout_s = timeout_s + _TIMEOUT_PER_ASKER_S * len(self._askers)

    def run(self) -> ClockReading:
        """This rank's offset now.

        Raises:
            OSError: The rank that asks for this host got no answer in time.
        """
        if not self._askers:
            return self._same_clock()
        deadline_s = time.monotonic() + self._timeout_s
        # A failure travels as a text, so that every rank takes part in every call of the group.
        server, offer = self._open_server(deadline_s)
        offer = self._group.all_gather(offer)[0]
        answer = self._asked(offer, deadline_s)
        if server is not None:
            server.join()
        answers = self._group.all_gather(answer)
        asker = self._asker_of.get(self._group.rank)
        if asker is None:
            return self._same_clock()
        result = answers[asker]
        if isinstance(result, str):
            raise OSError(f"rank {asker} could not read rank 0's clock: {result}")
        return ClockReading(method=TCP, **result)

    def _open_server(self, deadline_s: float) -> tuple[PingServer | None, Sent]:
        if self._group.rank != 0:
            return None, ""
        addresses = ["127.0.0.1"] if self._one_host else job_addresses()
        try:
            server = PingServer(addresses, len(self._askers), deadline_s, self._clock)
        except (OSError, RuntimeError) as error:
            # The system refuses a thread by a RuntimeError.
            return None, f"rank 0 could not listen: {error}"[:_MAX_REASON]
        return server, asdict(server.offer)

    def _asked(self, offer: Sent, deadline_s: float) -> Sent:
        if self._group.rank not in self._askers or isinstance(offer, str):
            return offer if isinstance(offer, str) else ""
        try:
            return asdict(ping(Offer(**offer), deadline_s, self._clock))
        except OSError as error:
            return str(error)[:_MAX_REASON]

    def _same_clock(self) -> ClockReading:
        return ClockReading(SAME_CLOCK, self._clock(), 0, 0, 0, 0)


def clock_identity() -> Host:
    """Boot and time namespace, which processes with the same monotonic clock share."""
    try:
        namespace = str(Path("/proc/self/ns/time").readlink())
    except OSError:
        namespace = ""
    # Without a boot id (no /proc) the host's name is the best guess.
    return boot_id() or socket.gethostname(), namespace


def own_addresses() -> list[str]:
    """The name and the IPv4 addresses of this host without loopback."""
    addresses = [socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            address = _interface_address(probe, name)
            if address and not address.startswith("127."):
                addresses.append(address)
    return addresses[:_MAX_ADDRESSES]


def job_addresses(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Where other hosts of the job reach this one: the address of Horovod's interface if known.

    Horovod's Gloo launchers set ``HOROVOD_GLOO_IFACE`` to a network that all hosts share.
    """
    name = environment.get("HOROVOD_GLOO_IFACE", "")
    if name:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            address = _interface_address(probe, name)
        if address and not address.startswith("127."):
            return [address]
    return own_addresses()


def _askers(hosts: list[Host], force_tcp: bool) -> dict[int, int]:
    """By rank the rank that asks for it; without ranks that share rank 0's clock."""
    if force_tcp:
        return {rank: rank for rank in range(1, len(hosts))}
    return {rank: hosts.index(host) for rank, host in enumerate(hosts) if host != hosts[0]}


def _interface_address(probe: socket.socket, name: str) -> str | None:
    try:
        request = struct.pack("256s", name.encode()[:15])
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
    except OSError:
        # The interface has no IPv4 address.
        return None
    return socket.inet_ntoa(answer[20:24])


class ClockTurns:
    """The exchange at the start of a recording and the one at its end.

    Args:
        make_group: Connects the ranks; called at the first turn.
        force_tcp: As in ``ClockExchange``.
        clock: As there.
    """

    def __init__(
        self,
        make_group: Callable[[], RankGroup],
        *,
        force_tcp: bool,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._make_group = make_group
        self._clock = clock
        self._force_tcp = force_tcp
        self._exchange: ClockExchange | None = None
        self._started = False

    def take(self) -> ClockReading:
        """This rank's offset now; every rank takes the same turns.

        Raises:
            OSError: This rank's clock could not be compared; the text says why.
        """
        if not self._started:
            self._started = True
            self._exchange = ClockExchange(
                self._make_group(), force_tcp=self._force_tcp, clock=self._clock
            )
        if self._exchange is None:
            raise OSError("clocks were not compared at the start")
        return self._exchange.run()
