"""The network between the hosts of a run: links, hosts, and its use by the job."""

from dash.development.base_component import Component

from hvdprof.dashboards.components.data_table import filled_card, table_card
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.dashboards.components.section import figure_card
from hvdprof.dashboards.run_store import RunStore
from hvdprof.figures.host_links import net_bandwidths
from hvdprof.model.tables.sample_tables import NET_HOSTS, NET_LINKS, NET_USE

_LINK_COLUMNS = (
    *("method", "from_host", "to_host", "latency_ns", "bandwidth_gb_per_s", "alpha_ns"),
    *("beta_ns_per_mb", "num_messages", "reason"),
)
_HOST_COLUMNS = (
    *("method", "host", "num_pairs", "bandwidth_gb_per_s", "typical_gb_per_s"),
    *("bandwidth_share", "latency_ns", "typical_latency_ns", "latency_ratio"),
)
_USE_COLUMNS = (
    *("np", "num_hosts", "num_executions", "size_bytes", "busbw_gb_per_s"),
    *("allowed_gb_per_s", "share", "reason"),
)


def network_cards(runs: RunStore, run_id: str) -> list[Component]:
    """The measured network; for several hosts without a measurement, how to measure it.

    Nothing for a run on one host, or a standalone file.
    """
    links = runs.table(run_id, NET_LINKS.name)
    if links.empty:
        return _how_to_measure(sorted(set(runs.run(run_id).ranks["hostname"].astype(str))))
    cards = [
        figure_card(
            "network",
            "Bandwidth between the hosts",
            net_bandwidths(links),
            about="Measured alone with one rank per host: slope of time over size, with its 95 % "
            "CI; hollow points have no upper end. TCP is a single connection; Horovod is the "
            "library in use.",
        ),
        table_card(
            "Links",
            NET_LINKS,
            links.sort_values("bandwidth_gb_per_s", kind="stable"),
            columns=_LINK_COLUMNS,
            about="The slowest first. A message takes alpha + beta * bytes; the latency is the "
            "median of the smallest. TCP and broadcast: one way.",
        ),
    ]
    hosts, uses = runs.table(run_id, NET_HOSTS.name), runs.table(run_id, NET_USE.name)
    cards += filled_card(
        "Each host's link",
        NET_HOSTS,
        hosts.sort_values("bandwidth_share", kind="stable"),
        _HOST_COLUMNS,
        "Measured by the fastest pair, because a pair is as fast as its slower link; "
        "typical is the median of the other hosts.",
    )
    return cards + filled_card(
        "Use of the network by the job",
        NET_USE,
        uses,
        _USE_COLUMNS,
        "Bus bandwidth of the job's large allreduces, divided by that of the "
        "allreduce measured alone on the same hosts.",
    )


def _how_to_measure(hosts: list[str]) -> list[Component]:
    named = [host for host in hosts if host]
    if len(named) < 2:
        return []
    return [
        empty_state(
            f"The network between the {len(named)} hosts of this run was not measured.",
            f"hvdprof net --hosts {','.join(named)}",
            about="hvdprof bench and run measure it before they start on several hosts, unless "
            "--no-net is given. This page then shows each link, and its use by the job.",
        )
    ]
