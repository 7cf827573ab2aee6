"""Tables on the network between the hosts of a job, as `hvdprof net` measures it.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_METHOD = Column(
    "method",
    "category",
    "",
    "tcp (plain TCP), broadcast (from one rank to another through Horovod) or allreduce (of one "
    "rank on every host).",
)
_FROM = Column("from_host", "category", "", "Host that sends; `all` for allreduce.")
_TO = Column("to_host", "category", "", "Host that replies; `all` for allreduce.")

NET_TRANSFERS = Table(
    "net_transfers",
    "One timed message between two hosts, or one timed allreduce of all of them.",
    (
        _METHOD,
        _FROM,
        _TO,
        Column("np", "int64", "", "Participating ranks."),
        Column("size_bytes", "int64", "bytes", "Size of the message."),
        Column("round", "int64", "", "Number of the repetition, from 0."),
        Column(
            "time_ns",
            "int64",
            "ns",
            "Half of the round-trip time; the whole time of an allreduce.",
        ),
    ),
)

NET_LINKS = Table(
    "net_links",
    "The network between two hosts, or among all: `alpha + beta * bytes`, fitted over the medians "
    "of the sizes.",
    (
        _METHOD,
        _FROM,
        _TO,
        Column("np", "int64", "", "Participating ranks."),
        Column("num_messages", "int64", "", "Timed messages."),
        Column("num_sizes", "int64", "", "Sizes among them."),
        Column("smallest_bytes", "int64", "bytes", "Smallest size."),
        Column("largest_bytes", "int64", "bytes", "Largest size."),
        Column("latency_ns", "float64", "ns", "Median time of the smallest message."),
        Column("latency_low_ns", "float64", "ns", "Lower end of the 95 % interval of the median."),
        Column("latency_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("alpha_ns", "float64", "ns", "Time of an empty message, from the fit."),
        Column("alpha_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("alpha_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("beta_ns_per_mb", "float64", "ns/MB", "Additional time per million bytes."),
        Column("beta_low_ns_per_mb", "float64", "ns/MB", "Lower end of the 95 % interval."),
        Column("beta_high_ns_per_mb", "float64", "ns/MB", "Upper end of the 95 % interval."),
        Column("bandwidth_gb_per_s", "float64", "GB/s", "Bandwidth for large messages, 1 / beta."),
        Column("bandwidth_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("bandwidth_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column("reason", "str", "", "Why there is no fit; empty where there is one."),
    ),
)

NET_HOSTS = Table(
    "net_hosts",
    "The link of one host, measured by its fastest pair, against the median of the other hosts; "
    "for three hosts or more.",
    (
        _METHOD,
        Column("host", "category", "", "The host."),
        Column("num_pairs", "int64", "", "Fitted pairs that contain the host."),
        Column("bandwidth_gb_per_s", "float64", "GB/s", "Bandwidth of its fastest pair."),
        Column("bandwidth_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("bandwidth_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column(
            "typical_gb_per_s", "float64", "GB/s", "Median `bandwidth_gb_per_s` of the other hosts."
        ),
        Column(
            "bandwidth_share", "float64", "ratio", "Bandwidth divided by that of the other hosts."
        ),
        Column("bandwidth_share_low", "float64", "ratio", "Lower end, from both intervals."),
        Column("bandwidth_share_high", "float64", "ratio", "Upper end, from both intervals."),
        Column("latency_ns", "float64", "ns", "Latency of its fastest pair."),
        Column("latency_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("latency_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("typical_latency_ns", "float64", "ns", "Median `latency_ns` of the other hosts."),
        Column("latency_ratio", "float64", "ratio", "Latency divided by that of the other hosts."),
        Column("latency_ratio_low", "float64", "ratio", "Lower end, from both intervals."),
        Column("latency_ratio_high", "float64", "ratio", "Upper end, from both intervals."),
    ),
)

NET_USE = Table(
    "net_use",
    "Bus bandwidth of large allreduces of the job, against the allreduce measured alone among the "
    "same hosts (bus bandwidth as in nccl-tests, PERFORMANCE.md).",
    (
        Column("np", "int64", "", "Ranks of the job."),
        Column("num_hosts", "int64", "", "Hosts of the job, all of them measured."),
        Column(
            "num_executions",
            "int64",
            "",
            "Allreduces large enough to be limited by bandwidth, not latency.",
        ),
        Column("size_bytes", "float64", "bytes", "Their median payload."),
        Column("busbw_gb_per_s", "float64", "GB/s", "Their median bus bandwidth."),
        Column("busbw_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("busbw_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column(
            "allowed_gb_per_s",
            "float64",
            "GB/s",
            "Bus bandwidth of the measured allreduce at that payload.",
        ),
        Column("allowed_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("allowed_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column("share", "float64", "ratio", "`busbw_gb_per_s` divided by `allowed_gb_per_s`."),
        Column("share_low", "float64", "ratio", "Lower end, from both intervals."),
        Column("share_high", "float64", "ratio", "Upper end, from both intervals."),
        Column("reason", "str", "", "Why there is no comparison; empty where there is one."),
    ),
)

NET_TABLES: tuple[Table, ...] = (NET_TRANSFERS, NET_LINKS, NET_HOSTS, NET_USE)
