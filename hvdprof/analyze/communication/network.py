"""The network between the hosts of a run: its tables, and the verdict of network-only runs.

Tested in ``tests/api/test_network.py``.
"""

from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.communication.net_hosts import net_hosts
from hvdprof.analyze.communication.net_links import net_links
from hvdprof.analyze.communication.net_use import net_use
from hvdprof.model.run import Run, Verdict
from hvdprof.model.tables.net_tables import NET_HOSTS, NET_LINKS, NET_TRANSFERS, NET_USE


def network_tables(run: Run, collectives: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """NET_LINKS, NET_HOSTS and NET_USE by name; without rows if no network was measured.

    Args:
        run: Any run.
        collectives: COLLECTIVES of the run.
    """
    links = net_links(run.table(NET_TRANSFERS.name))
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
        return replace(answer, sentence="The network was measured, but no pair of hosts has a fit.")
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
    return replace(answer, sentence=sentence)
