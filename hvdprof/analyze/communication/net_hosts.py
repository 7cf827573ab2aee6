"""The link of each host against those of the other hosts."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.uncertainty import Interval
from hvdprof.model.tables.net_tables import NET_HOSTS

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
        pairs = _of_both_ends(of_method)
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


def _of_both_ends(links: pd.DataFrame) -> pd.DataFrame:
    """The pairs as rows of both of their hosts."""
    ends = [links.assign(host=links[name].astype(str)) for name in ("from_host", "to_host")]
    return pd.concat(ends, ignore_index=True)


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
