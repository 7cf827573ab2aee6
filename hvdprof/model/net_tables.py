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

NET_TABLES: tuple[Table, ...] = (NET_TRANSFERS, NET_LINKS)
