"""Links as the user states them: ``--link 25Gbit,15us`` and ``--intra nvlink:300GB/s``.

Latencies of links inside a host are those that NCCL assumes for one hop of a ring with the protocol
Simple (``hwLat`` in its ``tuning.cc``): 3.4 us over NVLink and 5.7 us over PCIe. Shared memory has
5 us and 5 GB/s, the order of magnitude of copies between two processes of one socket.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hvdprof.errors import UsageError

LINK_EXAMPLES = "25Gbit,15us or 3GB/s"
INTRA_EXAMPLES = "shm, nvlink:300GB/s or pcie:12GB/s,6us"


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
