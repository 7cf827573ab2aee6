"""Links that no run measured: as the user states them, and scenarios for the network.

A job reaches less than the nominal bandwidth: 55 to 95 % of it between hosts, 50 to 100 % inside.
Latencies are uncertain by a quarter where they are stated, by a factor of 1.6 where they are
assumed. Software takes its own time per message on every link: where messages inside a host were
measured, their latency is added to that of the network, and no byte moves faster than inside.

Latencies of links inside a host are those that NCCL assumes for one hop of a ring with the protocol
Simple (``hwLat`` in its ``tuning.cc``): 3.4 us over NVLink and 5.7 us over PCIe. Shared memory has
5 us and 5 GB/s, the order of magnitude of copies between two processes of one socket.

A run on one host says nothing on the network between hosts, so its forecasts are for stated speeds,
one band each.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.costs.algorithm_choice import PRIORS
from hvdprof.analyze.predict.costs.collective_cost import Link
from hvdprof.analyze.predict.costs.cost_draws import CostDraws, Rule
from hvdprof.analyze.predict.costs.posterior_draws import Prior
from hvdprof.errors import UsageError
from hvdprof.model.results.forecast import MEASURED

LINK_EXAMPLES = "25Gbit,15us or 3GB/s"
INTRA_EXAMPLES = "shm, nvlink:300GB/s or pcie:12GB/s,6us"
ASSUMED_LATENCY_NS = 11_000.0
"""Of a stated network without latency: the geometric mean of 5 and 25 us."""

_USE_BETWEEN = 0.55, 0.95
_USE_INSIDE = 0.5, 1.0
_STATED_ERROR, _ASSUMED_ERROR = 0.25, 0.45


@dataclass(frozen=True, slots=True)
class StatedLink:
    """A link by its nominal numbers.

    ``bytes_per_ns`` equals GB/s with 1e9 bytes. ``latency_ns`` is None where the text gives none.
    """

    text: str
    bytes_per_ns: float
    latency_ns: float | None = None


def parse_link(text: str) -> StatedLink:
    """The network between hosts out of ``BANDWIDTH[,LATENCY]``, as in ``25Gbit,15us``.

    Bandwidths are in bits per second (``25Gbit``, ``25Gb/s``, ``25Gbps``) or bytes per second
    (``3GB/s``, ``3GBps``), with the decimal prefixes k, M, G, T; the case of b and B decides.

    Raises:
        UsageError: The text has another form, or a number is not above 0.
    """
    return _parse(text, text, option="--link", examples=LINK_EXAMPLES)


def parse_intra(text: str) -> StatedLink:
    """The link between two ranks of a host: ``shm``, ``pcie`` or ``nvlink``, with numbers or not.

    ``KIND[:BANDWIDTH[,LATENCY]]``; what is left out is that of the kind. NVLink needs a bandwidth,
    which differs by a factor of ten between its generations.

    Raises:
        UsageError: The kind is unknown, NVLink has no bandwidth, or the numbers have another form.
    """
    kind, colon, numbers = text.strip().partition(":")
    known = _KINDS.get(kind.strip().lower())
    if known is None:
        raise UsageError(
            f"--intra {text!r} names no link inside a host.",
            hint=f"Kinds are {', '.join(_KINDS)}. Examples: {INTRA_EXAMPLES}.",
        )
    if not colon:
        if known.bytes_per_ns is None:
            raise UsageError(
                f"--intra {text!r} needs a bandwidth: it depends on the GPU.",
                hint="Example: nvlink:300GB/s, in one direction.",
            )
        return StatedLink(text.strip(), known.bytes_per_ns, known.latency_ns)
    stated = _parse(numbers, text, option="--intra", examples=INTRA_EXAMPLES)
    latency = known.latency_ns if stated.latency_ns is None else stated.latency_ns
    return StatedLink(stated.text, stated.bytes_per_ns, latency)


@dataclass(frozen=True, slots=True)
class _Kind:
    bytes_per_ns: float | None
    latency_ns: float


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "shm": _Kind(5.0, 5_000.0),
        "pcie": _Kind(12.0, 5_700.0),
        "nvlink": _Kind(None, 3_400.0),
    }
)


_BANDWIDTH = re.compile(r"([\d.]+)\s*([kKMGT]?)(?:(bit|b)(?:/s|ps)?|(B)(?:/s|ps))")


_LATENCY = re.compile(r"([\d.]+)\s*(ns|us|µs|μs|ms|s)")


_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


_NANOSECONDS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}


def _parse(numbers: str, text: str, *, option: str, examples: str) -> StatedLink:
    bandwidth, comma, latency = numbers.partition(",")
    hint = f"Examples: {examples}."
    found = _BANDWIDTH.fullmatch(bandwidth.strip())
    rate = _number(found[1]) if found else None
    if found is None or rate is None:
        raise UsageError(f"{option} {text!r} has no bandwidth such as 25Gbit or 3GB/s.", hint=hint)
    bits_per_unit = 1 if found[3] else 8
    bytes_per_ns = rate * _PREFIXES[found[2]] * bits_per_unit / 8 / 1e9
    if not comma:
        return StatedLink(text.strip(), bytes_per_ns)
    timed = _LATENCY.fullmatch(latency.strip())
    delay = _number(timed[1]) if timed else None
    if timed is None or delay is None:
        raise UsageError(f"{option} {text!r} has no latency such as 15us.", hint=hint)
    return StatedLink(text.strip(), bytes_per_ns, delay * _NANOSECONDS[timed[2]])


def _number(text: str) -> float | None:
    """A number above 0; None for text such as ``1.2.3`` and for 0."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 else None


SCENARIOS: tuple[StatedLink, ...] = (
    StatedLink("1Gbit", 0.125, 50_000.0),
    StatedLink("10Gbit", 1.25, 30_000.0),
    StatedLink("25Gbit", 3.125, 15_000.0),
    StatedLink("100Gbit", 12.5, 8_000.0),
    StatedLink("400Gbit", 50.0, 5_000.0),
)
"""Networks between hosts where none was measured: Ethernet with TCP for 1 and 10 Gb/s, RDMA from
25 Gb/s on. The latencies are assumptions, each in the middle of what such networks have."""


def drawn_link(
    stated: StatedLink, random: np.random.Generator, num_draws: int, *, between_hosts: bool
) -> Link:
    """A stated link as draws: a share of its bandwidth, and a latency around the stated one."""
    low, high = _USE_BETWEEN if between_hosts else _USE_INSIDE
    share = random.uniform(low, high, num_draws)
    is_assumed = stated.latency_ns is None or stated in SCENARIOS
    latency = ASSUMED_LATENCY_NS if stated.latency_ns is None else stated.latency_ns
    error = _ASSUMED_ERROR if is_assumed else _STATED_ERROR
    alpha = latency * np.exp(error * random.standard_normal(num_draws))
    return Link(alpha, 1 / (stated.bytes_per_ns * share))


def with_network(
    draws: CostDraws, stated: StatedLink, random: np.random.Generator, *, intra_is_measured: bool
) -> CostDraws:
    """The draws with a stated network between the hosts in place of the measured one.

    Args:
        draws: Costs whose network is replaced.
        stated: The network.
        random: Source of the draws.
        intra_is_measured: Whether the links inside a host come from measured allreduces, whose
            latency and bandwidth contain the work of the processor for each message.
    """
    wire = drawn_link(stated, random, draws.num_draws, between_hosts=True)
    if not intra_is_measured:
        return replace(draws, inter=wire)
    alpha = np.asarray(wire.alpha_ns) + np.asarray(draws.intra.alpha_ns)
    beta = np.maximum(wire.beta_ns_per_byte, draws.intra.beta_ns_per_byte)
    return replace(draws, inter=Link(alpha, beta))


def with_intra(draws: CostDraws, stated: StatedLink, random: np.random.Generator) -> CostDraws:
    """The draws with a stated link inside the hosts in place of the measured one."""
    link = drawn_link(stated, random, draws.num_draws, between_hosts=False)
    return replace(draws, intra=link)


def with_rule(draws: CostDraws, rule: Rule) -> CostDraws:
    """The draws with one algorithm for all, as ``--algorithm`` asks for."""
    return replace(draws, rules=(rule,), rule_of_draw=np.zeros(draws.num_draws, dtype=np.int64))


def assumed_draws(rule: Rule, random: np.random.Generator, num_draws: int) -> CostDraws:
    """Costs where no allreduce was measured: the priors of ``algorithm_choice``."""

    def drawn(prior: Prior) -> NDArray[np.float64]:
        normal = random.standard_normal(num_draws)
        return np.asarray(prior.median * np.exp(prior.log_error * normal))

    return CostDraws(
        (rule,),
        np.zeros(num_draws, dtype=np.int64),
        Link(drawn(PRIORS["intra_alpha"]), drawn(PRIORS["intra_beta"])),
        Link(drawn(PRIORS["inter_alpha"]), drawn(PRIORS["inter_beta"])),
        drawn(PRIORS["overhead"]),
        np.empty(0),
        np.empty(0),
    )


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network by its name in tables; a link that is None is that of the run.

    ``intra_is_measured`` says whether the links inside a host were measured.
    """

    name: str
    inter: StatedLink | None = None
    intra: StatedLink | None = None
    intra_is_measured: bool = False

    def __call__(self, costs: CostDraws, rng: np.random.Generator) -> CostDraws:
        """Costs on these links, draw by draw."""
        if self.intra is not None:
            costs = with_intra(costs, self.intra, rng)
        if self.inter is None:
            return costs
        is_measured = self.intra_is_measured and self.intra is None
        return with_network(costs, self.inter, rng, intra_is_measured=is_measured)


@dataclass(frozen=True, slots=True)
class KnownLinks:
    """Which links the run holds."""

    intra: bool = False
    inter: bool = False


def scenarios(
    links: Sequence[str], intra: str, known: KnownLinks, *, is_one_host: bool
) -> tuple[Scenario, ...]:
    """The scenarios of a question.

    Args:
        links: Stated links between hosts.
        intra: Stated link inside a host, or empty.
        known: What the run holds.
        is_one_host: Whether all predicted sizes fit on one host.

    Raises:
        UsageError: A link cannot be parsed.
    """
    inside = parse_intra(intra) if intra else None
    if not links and (known.inter or is_one_host):
        return (Scenario(MEASURED, None, inside, known.intra),)
    stated = tuple(parse_link(text) for text in links) or SCENARIOS
    return tuple(Scenario(link.text, link, inside, known.intra) for link in stated)
