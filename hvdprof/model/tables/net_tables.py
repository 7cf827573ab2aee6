"""Tables on the network between the hosts of a job, as `hvdprof net` measures it."""

from hvdprof.model.schema import Column, Table

_METHOD = Column(
    "method",
    "category",
    "",
    "tcp (plain TCP), broadcast (from one rank to another through Horovod) or allreduce (of one "
    "rank on every host).",
)
_FROM = Column("from_host", "category", "", "Host that asks; `all` for allreduce.")
_TO = Column("to_host", "category", "", "Host that answers; `all` for allreduce.")

NET_TRANSFERS = Table(
    "net_transfers",
    "One timed message between two hosts, or one timed allreduce of all of them.",
    (
        _METHOD,
        _FROM,
        _TO,
        Column("np", "int64", "", "Ranks that took part."),
        Column("size_bytes", "int64", "bytes", "Size of the message."),
        Column("round", "int64", "", "Number of the repetition, from 0."),
        Column(
            "time_ns",
            "int64",
            "ns",
            "Half of the time there and back; the whole time of an allreduce.",
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
        Column("np", "int64", "", "Ranks that took part."),
        Column("num_messages", "int64", "", "Timed messages."),
        Column("num_sizes", "int64", "", "Sizes among them."),
        Column("smallest_bytes", "int64", "bytes", "Smallest size."),
        Column("largest_bytes", "int64", "bytes", "Largest size."),
        Column("latency_ns", "float64", "ns", "Median time of the smallest message."),
        Column("latency_low_ns", "float64", "ns", "Lower end of the 95 % interval of the median."),
        Column("latency_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("alpha_ns", "float64", "ns", "Time of an empty message by the fit."),
        Column("alpha_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("alpha_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("beta_ns_per_mb", "float64", "ns/MB", "More time for a million bytes more."),
        Column("beta_low_ns_per_mb", "float64", "ns/MB", "Lower end of the 95 % interval."),
        Column("beta_high_ns_per_mb", "float64", "ns/MB", "Upper end of the 95 % interval."),
        Column("bandwidth_gb_per_s", "float64", "GB/s", "Bytes by time for large messages."),
        Column("bandwidth_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("bandwidth_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column("reason", "str", "", "Why there is no fit; empty where there is one."),
    ),
)

NET_HOSTS = Table(
    "net_hosts",
    "The link of one host, as its best pair shows it, against the median of the other hosts; of "
    "three hosts or more.",
    (
        _METHOD,
        Column("host", "category", "", "The host."),
        Column("num_pairs", "int64", "", "Pairs with a fit that it is in."),
        Column("bandwidth_gb_per_s", "float64", "GB/s", "Of its quickest pair."),
        Column("bandwidth_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("bandwidth_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column("typical_gb_per_s", "float64", "GB/s", "Median of the same of the other hosts."),
        Column("bandwidth_share", "float64", "ratio", "Its bandwidth by that of the others."),
        Column("bandwidth_share_low", "float64", "ratio", "Lower end, both intervals at once."),
        Column("bandwidth_share_high", "float64", "ratio", "Upper end, both intervals at once."),
        Column("latency_ns", "float64", "ns", "Of its quickest pair."),
        Column("latency_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("latency_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("typical_latency_ns", "float64", "ns", "Median of the same of the other hosts."),
        Column("latency_ratio", "float64", "ratio", "Its latency by that of the others."),
        Column("latency_ratio_low", "float64", "ratio", "Lower end, both intervals at once."),
        Column("latency_ratio_high", "float64", "ratio", "Upper end, both intervals at once."),
    ),
)

NET_USE = Table(
    "net_use",
    "What large allreduces of the job reached of what the allreduce among the same hosts gave "
    "when it was measured on its own, as bus bandwidth (nccl-tests, PERFORMANCE.md).",
    (
        Column("np", "int64", "", "Ranks of the job."),
        Column("num_hosts", "int64", "", "Hosts of the job, all of which were measured."),
        Column(
            "num_executions",
            "int64",
            "",
            "Allreduces large enough for bandwidth, not latency, to decide.",
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
        Column("share", "float64", "ratio", "Reached by allowed."),
        Column("share_low", "float64", "ratio", "Lower end, both intervals at once."),
        Column("share_high", "float64", "ratio", "Upper end, both intervals at once."),
        Column("reason", "str", "", "Why there is no comparison; empty where there is one."),
    ),
)

NET_TABLES: tuple[Table, ...] = (NET_TRANSFERS, NET_LINKS, NET_HOSTS, NET_USE)
