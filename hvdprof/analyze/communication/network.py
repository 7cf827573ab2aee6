"""The network between hosts: latency and bandwidth of transfers, its tables, and its verdict."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.analyze.communication.net_use import net_use
from hvdprof.analyze.stats.theil_sen import theil_sen
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, Interval, median_of
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LAUNCH, LaunchKey
from hvdprof.model.run import Run, Verdict, VerdictParts
from hvdprof.model.schema import text_of
from hvdprof.model.tables.collective_tables import LINK_FIT
from hvdprof.model.tables.sample_tables import NET_HOSTS, NET_LINKS, NET_TRANSFERS, NET_USE

LEAST_SIZES = 4
LEAST_SPAN = 8.0


def network_tables(run: Run, collectives: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """NET_LINKS, NET_HOSTS and NET_USE by name; without rows if no network was measured.

    Args:
        run: Any run.
        collectives: COLLECTIVES of the run.
    """
    transfers = run.table(NET_TRANSFERS.name)
    if transfers.empty:
        return {table.name: table.empty() for table in (NET_LINKS, NET_HOSTS, NET_USE)}
    links = net_links(transfers)
    return {
        NET_LINKS.name: links,
        NET_HOSTS.name: net_hosts(links),
        NET_USE.name: net_use(collectives, run.segments, run.ranks, links),
    }


def network_verdict(run: Run, links: pd.DataFrame, answer: Verdict) -> Verdict:
    """The verdict of a run in which only the network was measured: its slowest pair.

    Args:
        run: Any run.
        links: NET_LINKS of the run.
        answer: The verdict of all other runs.
    """
    if run.manifest.passes or links.empty:
        return answer
    of_pairs = links[(links["method"] == "tcp") & links["bandwidth_gb_per_s"].notna()]
    if of_pairs.empty:
        sentence = "The network was measured, but no pair of hosts has a fit."
        return replace(answer, sentence=sentence, parts=VerdictParts())
    slowest = of_pairs.sort_values("bandwidth_gb_per_s", kind="stable").iloc[0]
    value, low, high = (
        1000 * float(slowest[f"bandwidth{end}_gb_per_s"]) for end in ("", "_low", "_high")
    )
    speed = units.interval_of_unit(value, low, high, "MB/s")
    which = "The slowest pair of hosts" if len(of_pairs) > 1 else "The pair of hosts"
    sentence = (
        f"{which} over TCP is {slowest['from_host']} - {slowest['to_host']}: {speed}, "
        f"{units.milliseconds(float(slowest['latency_ns']))} for the smallest message."
    )
    return replace(answer, sentence=sentence, parts=VerdictParts())


PAIR_METHODS = ("tcp", "broadcast")
LEAST_HOSTS = 3
_ENDS = ("", "_low", "_high")


def net_hosts(links: pd.DataFrame) -> pd.DataFrame:
    """NET_HOSTS, one row per method and host where three hosts or more were measured in pairs.

    A pair is as fast as the slower of its two links, so a link is at least as fast as the best
    pair of its host, and all pairs of a slow link are slow. With two hosts, one pair does not show
    which of them is slow. The ends of a ratio combine the worst ends of both intervals, so the
    coverage is above 95 %.

    Args:
        links: NET_LINKS.
    """
    rows: list[dict[str, object]] = []
    for method in PAIR_METHODS:
        of_method = links[(links["method"] == method) & (links["reason"] == "")]
        # The pairs as rows of both of their hosts.
        ends = [
            of_method.assign(host=of_method[name].astype(str)) for name in ("from_host", "to_host")
        ]
        pairs = pd.concat(ends, ignore_index=True)
        hosts = list(dict.fromkeys(pairs["host"]))
        if len(hosts) < LEAST_HOSTS:
            continue
        speed = _best(pairs, hosts, "bandwidth{}_gb_per_s", "max")
        delay = _best(pairs, hosts, "latency{}_ns", "min")
        for place, host in enumerate(hosts):
            bandwidth, typical = _against_others(speed, place)
            latency, typical_latency = _against_others(delay, place)
            rows.append(
                {
                    "method": method,
                    "host": host,
                    "num_pairs": int((pairs["host"] == host).sum()),
                    **_named("bandwidth{}_gb_per_s", Interval(*speed[:, place])),
                    "typical_gb_per_s": typical,
                    **_named("bandwidth_share{}", bandwidth),
                    **_named("latency{}_ns", Interval(*delay[:, place])),
                    "typical_latency_ns": typical_latency,
                    **_named("latency_ratio{}", latency),
                }
            )
    return NET_HOSTS.frame(rows)


def _best(pairs: pd.DataFrame, hosts: list[str], name: str, best: str) -> NDArray[np.float64]:
    """Value, lower and upper end [3, hosts] of the best pair of each host.

    A pair without a value or without an end on the better side can be better than all others, so
    the best is unknown there. The end on the other side is valid in any case.
    """
    columns = [name.format(end) for end in _ENDS]
    by_host = pairs[columns].groupby(pairs["host"].to_numpy(), sort=False)
    known = by_host.agg(best).loc[hosts]
    is_open = pairs[columns].isna().groupby(pairs["host"].to_numpy(), sort=False).any().loc[hosts]
    is_open[name.format("_low" if best == "max" else "_high")] = False
    return known.mask(is_open).to_numpy(dtype=np.float64).T


def _against_others(best: NDArray[np.float64], place: int) -> tuple[Interval, float]:
    """A host's value divided by the median of the others, and that median."""
    value, low, high = np.median(np.delete(best, place, axis=1), axis=1)
    own = best[:, place]
    return Interval(own[0] / value, own[1] / high, own[2] / low), float(value)


def _named(name: str, interval: Interval) -> dict[str, float]:
    values = (interval.value, interval.low, interval.high)
    return dict(zip((name.format(end) for end in _ENDS), values, strict=True))


_LINK = ["method", "from_host", "to_host", "np"]


def net_links(transfers: pd.DataFrame) -> pd.DataFrame:
    """NET_LINKS, one row per method and pair of hosts.

    The fit is that of ``link_fit``: Theil and Sen's slope over the medians of the sizes. The
    bandwidth is its inverse. The latency is the median of the smallest messages, with the interval
    of order statistics.

    Args:
        transfers: NET_TRANSFERS.
    """
    links = [
        (key, members)
        for key, members in transfers.groupby(_LINK, observed=True, sort=False)
        if isinstance(key, tuple)
    ]
    if not links:
        return NET_LINKS.empty()
    numbered = [
        members.assign(collective=str(number), pass_id=str(members["np"].iloc[0]))
        for number, (_, members) in enumerate(links)
    ]
    messages = pd.concat(numbered, ignore_index=True).assign(segment="", warmup=False)
    sizes = {(str(number), ""): int(number) for number in messages["np"].unique()}
    fits = link_fit(messages.rename(columns={"time_ns": "transfer_ns"}), sizes)
    by_number = {row["collective"]: row for row in fits.to_dict("records")}
    return NET_LINKS.frame(
        [
            _row(dict(zip(_LINK, key, strict=True)), members, by_number[str(number)])
            for number, (key, members) in enumerate(links)
        ]
    )


def _row(link: Mapping[str, object], members: pd.DataFrame, fit: FrameRow) -> dict[str, object]:
    smallest = members.loc[members["size_bytes"] == members["size_bytes"].min(), "time_ns"]
    latency = median_of(smallest.to_numpy(dtype=np.float64))
    numbers = ("alpha", "beta", "bandwidth")
    taken = [name for name in NET_LINKS.column_names if name.startswith(numbers)]
    return {
        **link,
        "num_messages": fit["num_executions"],
        **{name: fit[name] for name in ("num_sizes", "smallest_bytes", "largest_bytes")},
        "latency_ns": latency.value,
        "latency_low_ns": latency.low,
        "latency_high_ns": latency.high,
        **{name: fit[name] for name in taken},
        "reason": fit["reason"],
    }


def link_fit(collectives: pd.DataFrame, ranks_of: Mapping[LaunchKey, int]) -> pd.DataFrame:
    """LINK_FIT over the executions of all launches with the same number of ranks.

    Theil and Sen's slope over the median transfer time of every payload (Sen, JASA 63, 1968), and
    the median of its residuals as the time of an empty message: both are robust against a few
    stalled transfers. No fit below four payloads, or for payloads that differ by less than a
    factor of eight.

    Args:
        collectives: COLLECTIVES.
        ranks_of: Number of ranks by launch; launches of unknown size are left out.
    """
    if collectives.empty:
        return LINK_FIT.empty()
    names = zip(*(text_of(collectives[name]) for name in LAUNCH), strict=True)
    table = collectives.assign(np=[ranks_of.get(key, 0) for key in names])
    useful = table[
        (table["np"] > 1)
        & ~table["warmup"]
        & table["size_bytes"].notna()
        & (table["transfer_ns"] > 0)
    ].astype({"size_bytes": "float64", "transfer_ns": "float64", "collective": str})
    rows = [
        _fitted_row(int(str(size)), str(collective), members)
        for (size, collective), members in useful.groupby(["np", "collective"])
    ]
    return LINK_FIT.frame(rows)


def _fitted_row(num_ranks: int, collective: str, members: pd.DataFrame) -> dict[str, object]:
    medians = members.groupby("size_bytes")["transfer_ns"].median()
    sizes = medians.index.to_numpy(dtype=np.float64)
    row = {
        "np": num_ranks,
        "collective": collective,
        "num_executions": len(members),
        "num_sizes": len(sizes),
        "smallest_bytes": int(sizes.min()),
        "largest_bytes": int(sizes.max()),
    }
    if len(sizes) < LEAST_SIZES:
        return row | _no_fit(f"only {len(sizes)} different payloads")
    if sizes.max() < LEAST_SPAN * sizes.min():
        return row | _no_fit("payloads differ by less than a factor of eight")
    return row | _fit(sizes, medians.to_numpy(dtype=np.float64))


def _fit(sizes: NDArray[np.float64], times: NDArray[np.float64]) -> dict[str, object]:
    found = theil_sen(sizes, times, CONFIDENCE)
    slope, low, high = found.value, found.low, found.high

    def empty_message(beta: float) -> float:
        return float(np.median(times - beta * sizes))

    return {
        "alpha_ns": empty_message(slope),
        "alpha_low_ns": empty_message(high),
        "alpha_high_ns": empty_message(low),
        "beta_ns_per_mb": slope * 1e6,
        "beta_low_ns_per_mb": low * 1e6,
        "beta_high_ns_per_mb": high * 1e6,
        "bandwidth_gb_per_s": _inverse(slope),
        "bandwidth_low_gb_per_s": _inverse(high),
        "bandwidth_high_gb_per_s": _inverse(low),
        "reason": "",
    }


def _inverse(slope: float) -> float:
    """Bandwidth of a slope, bytes per nanosecond; NaN where more bytes take no more time."""
    return 1 / slope if slope > 0 else NAN


def _no_fit(reason: str) -> dict[str, object]:
    numbers = [name for name in LINK_FIT.column_names if name.startswith(("alpha", "beta", "band"))]
    return {**dict.fromkeys(numbers, NAN), "reason": reason}
