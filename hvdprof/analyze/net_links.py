"""Latency and bandwidth between hosts, from messages that were timed on purpose."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import binom

from hvdprof import units
from hvdprof.analyze.link_fit import link_fit
from hvdprof.analyze.uncertainty import CONFIDENCE, NAN
from hvdprof.model.net_tables import NET_LINKS
from hvdprof.model.run import Run, Verdict

_LINK = ["method", "from_host", "to_host", "np"]


def net_links(transfers: pd.DataFrame) -> pd.DataFrame:
    """NET_LINKS, one row a method and pair of hosts.

    The fit is that of ``link_fit``: Theil and Sen's slope over the medians of the sizes. The
    bandwidth is its inverse. The latency is the median of the smallest messages, with the interval
    of order statistics (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.6).

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


def network_verdict(run: Run, links: pd.DataFrame, answer: Verdict) -> Verdict:
    """The verdict of a run in which nothing but the network was measured: its slowest pair.

    Args:
        run: Any run.
        links: NET_LINKS of the run.
        answer: The verdict that holds where something else was measured.
    """
    if run.manifest.passes or links.empty:
        return answer
    of_pairs = links[(links["method"] == "tcp") & links["bandwidth_gb_per_s"].notna()]
    if of_pairs.empty:
        return replace(answer, sentence="The network was measured, but has no pair with a fit.")
    slowest = of_pairs.sort_values("bandwidth_gb_per_s", kind="stable").iloc[0]
    speed = units.of_unit(1000 * float(slowest["bandwidth_gb_per_s"]), "MB/s")
    which = "The slowest pair of hosts" if len(of_pairs) > 1 else "The pair of hosts"
    sentence = (
        f"{which} over TCP is {slowest['from_host']} - {slowest['to_host']}: {speed}, "
        f"{units.milliseconds(float(slowest['latency_ns']))} for the smallest message."
    )
    return replace(answer, sentence=sentence)


def _row(link: Mapping[str, Any], members: pd.DataFrame, fit: Mapping[Any, Any]) -> dict[str, Any]:
    smallest = members.loc[members["size_bytes"] == members["size_bytes"].min(), "time_ns"]
    latency, low, high = _median(smallest.to_numpy(dtype=np.float64))
    betas = [fit[f"beta{end}_ns_per_mb"] for end in ("", "_high", "_low")]
    speeds = [1e6 / beta if beta > 0 else NAN for beta in betas]
    taken = [name for name in NET_LINKS.column_names if name.startswith(("alpha", "beta"))]
    return {
        **link,
        "num_messages": fit["num_executions"],
        **{name: fit[name] for name in ("num_sizes", "smallest_bytes", "largest_bytes")},
        "latency_ns": latency,
        "latency_low_ns": low,
        "latency_high_ns": high,
        **{name: fit[name] for name in taken},
        "bandwidth_gb_per_s": speeds[0],
        "bandwidth_low_gb_per_s": speeds[1],
        "bandwidth_high_gb_per_s": speeds[2],
        "reason": fit["reason"],
    }


def _median(times: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The median with the ends of its interval; NaN where too few values allow one."""
    ordered = np.sort(times)
    below = int(binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    if below < 1:
        return float(np.median(ordered)), NAN, NAN
    return float(np.median(ordered)), float(ordered[below - 1]), float(ordered[-below])
