"""Bus bandwidth of the job's allreduces against that of the network between its hosts."""

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.analyze.communication.matched_collectives import bus_factor
from hvdprof.analyze.stats.uncertainty import NAN, Interval, median_of
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.tables.sample_tables import NET_USE
from hvdprof.rundir.plan import HOROVOD_ENGINE

LEAST_EXECUTIONS = 10
MOST_LATENCY = 0.2
"""Largest share of latency in an allreduce that counts as limited by bandwidth."""

MOST_SHARE = 1.1
"""A job cannot get more than its network gives: beyond, what was measured is not that."""

_ALLREDUCE = "ALLREDUCE"
_ENDS = ("", "_low", "_high")


def net_use(
    collectives: pd.DataFrame, segments: pd.DataFrame, ranks: pd.DataFrame, links: pd.DataFrame
) -> pd.DataFrame:
    """NET_USE, one row per number of ranks that ran on all hosts of the measured allreduce.

    Both are compared as bus bandwidth (nccl-tests, PERFORMANCE.md): a ring sends the same number
    of bytes over each link for one rank per host and for several neighbouring ranks per host. The
    measured allreduce, ``alpha + beta * bytes``, is evaluated at the payload of each allreduce,
    with matching ends of alpha and beta. Allreduces with a share of ``alpha`` above a fifth are
    excluded: latency depends on the number of ranks, and bus bandwidth does not account for it.

    Args:
        collectives: COLLECTIVES.
        segments: SEGMENTS.
        ranks: RANKS, for the hosts of a pass.
        links: NET_LINKS.
    """
    measured = links[links["method"] == "allreduce"].to_dict("records")
    if not measured:
        return NET_USE.empty()
    link = measured[0]
    pairs = links[links["method"] != "allreduce"]
    launches = _launches_on(
        segments, ranks, set(pairs["from_host"].astype(str)) | set(pairs["to_host"].astype(str))
    )
    names = dict.fromkeys(LAUNCH, str)
    table = collectives[collectives["collective"] == _ALLREDUCE].astype(names)
    of_launches = table.merge(launches, on=LAUNCH).sort_values("start_ns", kind="stable")
    return NET_USE.frame(
        [
            {"np": int(str(size)), "num_hosts": int(link["np"]), **_compared(rows, link)}
            for size, rows in of_launches.groupby("size")
        ]
    )


def _launches_on(segments: pd.DataFrame, ranks: pd.DataFrame, hosts: set[str]) -> pd.DataFrame:
    """Launches of Horovod whose ranks ran on exactly these hosts."""
    by_pass = ranks.astype({"pass_id": str, "hostname": str}).groupby("pass_id")["hostname"]
    passes = {pass_id for pass_id, names in by_pass if set(names) == hosts}
    own = segments[
        segments["pass_id"].astype(str).isin(passes)
        & (segments["engine"] == HOROVOD_ENGINE).to_numpy()
    ]
    return own[[*LAUNCH, "size"]].astype(dict.fromkeys(LAUNCH, str)).drop_duplicates(LAUNCH)


def _compared(rows: pd.DataFrame, link: FrameRow) -> dict[str, object]:
    if link["reason"]:
        return _no_comparison(0, f"the measured allreduce has no fit: {link['reason']}")
    if not link["beta_ns_per_mb"] > 0:
        return _no_comparison(0, "the measured allreduce did not take longer for larger payloads")
    known = rows[
        ~rows["warmup"].to_numpy(dtype=bool)
        & rows["size_bytes"].notna().to_numpy()
        & rows["busbw_gb_per_s"].notna().to_numpy()
    ]
    sizes = known["size_bytes"].to_numpy(dtype=np.float64)
    latency = max(float(link["alpha_ns"]), 0.0)
    large = latency <= MOST_LATENCY * _time(link, sizes)[0]
    if large.sum() < LEAST_EXECUTIONS:
        return _no_comparison(int(large.sum()), _too_few(int(large.sum()), latency, link))
    sizes, reached = sizes[large], known["busbw_gb_per_s"].to_numpy(dtype=np.float64)[large]
    factor = bus_factor(_ALLREDUCE, float(link["np"]))
    allowed = factor * sizes / _time(link, sizes)
    share = np.exp(_interval(np.log(reached / allowed[0])))
    at_median = np.argsort(sizes)[len(sizes) // 2]
    of_allowed = allowed[:, at_median]
    median = float(np.median(sizes))
    low = share[1] * of_allowed[0] / of_allowed[2]
    high = share[2] * of_allowed[0] / of_allowed[1]
    reason = _unusable(low, high, median)
    shares = (NAN, NAN, NAN) if reason else (float(share[0]), float(low), float(high))
    return {
        "num_executions": len(sizes),
        "size_bytes": median,
        **_named("busbw{}_gb_per_s", np.exp(_interval(np.log(reached)))),
        **_named("allowed{}_gb_per_s", of_allowed),
        **dict(zip(("share", "share_low", "share_high"), shares, strict=True)),
        "reason": reason,
    }


def _unusable(low: float, high: float, size_bytes: float) -> str:
    """Why a share says nothing of the network, or an empty string."""
    size = units.byte_size(size_bytes)
    if math.isnan(low) or math.isnan(high):
        return f"the measured allreduce is too uncertain at {size}, the payload of the job's"
    if low > MOST_SHARE:
        return f"the job's allreduces of {size} were faster than the measured one"
    return ""


def _too_few(number: int, latency_ns: float, link: FrameRow) -> str:
    least = 1e6 * latency_ns * (1 / MOST_LATENCY - 1) / float(link["beta_ns_per_mb"])
    size = units.byte_size(least)
    which = "no allreduce carries" if number == 0 else f"only {number} allreduces carry"
    return f"{which} {size} or more, and latency is more than a fifth of smaller ones"


def _time(link: FrameRow, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The measured allreduce at payloads: estimate, longest, shortest time [3, sizes] in ns."""
    ends = (("", ""), ("_low", "_high"), ("_high", "_low"))
    times = np.array(
        [
            link[f"alpha{of_alpha}_ns"] + link[f"beta{of_beta}_ns_per_mb"] * sizes / 1e6
            for of_alpha, of_beta in ends
        ]
    )
    found = np.array([times[0], times.max(axis=0), times.min(axis=0)])
    return np.where(found > 0, found, NAN)


def _interval(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found: Interval = median_of(values, correlated=True)
    return np.array([found.value, found.low, found.high])


def _named(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip((name.format(end) for end in _ENDS), map(float, values), strict=True))


def _no_comparison(number: int, reason: str) -> dict[str, object]:
    numbers = [column.name for column in NET_USE.columns if column.dtype == "float64"]
    return {"num_executions": number, **dict.fromkeys(numbers, NAN), "reason": reason}
