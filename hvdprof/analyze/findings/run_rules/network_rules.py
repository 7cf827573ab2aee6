"""Rules on the network between hosts, as it was measured on its own before the run."""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import advice
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.model.arrays import FrameRow
from hvdprof.model.tables.finding_tables import NETWORK_RULES
from hvdprof.model.tables.sample_tables import NET_HOSTS

SLOW_HOST_LINK, FAR_HOST = NETWORK_RULES

SLOW_SHARE = 2 / 3
"""A link is called slow that has a third less than the others, beyond both intervals."""

FAR_RATIO = 3.0
FAR_NS = 100_000.0
"""Both are asked of a latency: in one rack it may well differ by some microseconds."""

_SLOW_TCP = advice(
    "run `ethtool DEVICE` and `ethtool -S DEVICE` on it and on another host, and compare speed and "
    "errors",
    "Check its cable, and look for other traffic (`sar -n DEV 1`). Measure again with `hvdprof "
    "net`, or omit the host.",
    command="ethtool DEVICE",
)
_SLOW_LIBRARY = advice(
    "check the interface that the library uses",
    "Plain TCP to this host is not slow. Look for other processes on its cores (`top`).",
    first="Check the interface that the library uses ({names}HOROVOD_GLOO_IFACE, "
    "OMPI_MCA_btl_tcp_if_include).",
)
_FAR = advice(
    "run `tracepath HOST` to find another switch, room or network on its path",
    "Small messages pay this latency, so send fewer: a longer HOROVOD_CYCLE_TIME, a larger "
    "bucket_cap_mb= of DDP, larger batches.",
    command="tracepath HOST",
)
_OVER = {"tcp": "TCP", "broadcast": "Horovod"}


def slow_host_link(evidence: Evidence) -> Iterator[Finding]:
    """One host's link is far slower than those of the others: every allreduce waits for it."""
    named: set[str] = set()
    on_gpus = evidence.run.manifest.settings.get("device") == "cuda"
    names = "NCCL_SOCKET_IFNAME, " if on_gpus else ""
    # TCP first: a slow network is not reported a second time as a slow library.
    for row in evidence.table(NET_HOSTS.name).to_dict("records"):
        host, method = str(row["host"]), str(row["method"])
        if not row["bandwidth_share_high"] < SLOW_SHARE or host in named:
            continue
        named.add(host)
        own = _with_ends(row, "bandwidth", "_gb_per_s")
        share, typical = _against_others(row)
        yield Finding(
            SLOW_HOST_LINK,
            "warning",
            host,
            "slow network link",
            f"The best of {row['num_pairs']} pairs with {host} reaches {own} over "
            f"{_OVER[method]}, {share} of what the other hosts have. {typical}An allreduce is as "
            "fast as its slowest link.",
            _SLOW_TCP if method == "tcp" else _SLOW_LIBRARY.formatted(names=names),
            "certain",
            detail=host,
        )


def far_host(evidence: Evidence) -> Iterator[Finding]:
    """A message to one host takes far longer than between the others."""
    for row in evidence.table(NET_HOSTS.name).to_dict("records"):
        more_ns = row["latency_low_ns"] - row["typical_latency_ns"]
        if row["method"] != "tcp" or not (
            row["latency_ratio_low"] > FAR_RATIO and more_ns > FAR_NS
        ):
            continue
        host = str(row["host"])
        own = units.interval_of_unit(*_ends(row, "latency", "_ns"), "ns")
        yield Finding(
            FAR_HOST,
            "note",
            host,
            "high network latency",
            f"A small message to {host} takes {own} over TCP, in the best of its "
            f"{row['num_pairs']} pairs. Between the other hosts it takes "
            f"{units.milliseconds(float(row['typical_latency_ns']))}.",
            _FAR,
            "certain",
            detail=host,
        )


def _ends(row: FrameRow, name: str, unit: str) -> tuple[float, float, float]:
    value, low, high = (float(row[f"{name}{end}{unit}"]) for end in ("", "_low", "_high"))
    return value, low, high


def _against_others(row: FrameRow) -> tuple[str, str]:
    """Its share of the others' bandwidth, and that bandwidth where it could be timed."""
    share, low, high = _ends(row, "bandwidth_share", "")
    if share != share:
        return f"at most {units.percent(high)}", ""
    typical = units.of_unit(1000 * float(row["typical_gb_per_s"]), "MB/s")
    text = units.interval_of_unit(share, low, high, "ratio")
    return text, f"The median of the other hosts' best pairs is {typical}. "


def _with_ends(row: FrameRow, name: str, unit: str) -> str:
    value, low, high = _ends(row, name, unit)
    return units.interval_of_unit(1000 * value, 1000 * low, 1000 * high, "MB/s")
