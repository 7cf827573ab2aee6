"""Tables on the machine: samples of ranks, hosts and GPUs, and the network between hosts."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.run_tables import PASS, RANK

_MEASURE = Column("measure", "category", "What was sampled, as docs/howto/machine.md lists it.")
_WINDOW = (
    Column("start_ns", "int64", "Begin of the window on rank 0's monotonic clock.", "ns"),
    Column("duration_ns", "int64", "Length of the window.", "ns"),
    _MEASURE,
    Column("samples", "int64", "Samples in the window.", "samples"),
    Column("mean", "float64", "Their mean; of a count its growth per second.", "of measure"),
    Column("low", "float64", "The least of them.", "of measure"),
    Column("median", "float64", "Their median.", "of measure"),
    Column("high", "float64", "The most of them.", "of measure"),
)

RANK_SAMPLES = Table(
    "rank_samples",
    "One measure of the process of a rank in one window: processor time, waits for a core, memory.",
    (PASS, RANK, *_WINDOW),
)
HOST_SAMPLES = Table(
    "host_samples",
    "One measure of a host in one window, sampled by the first rank there.",
    (PASS, RANK, *_WINDOW),
)
DEVICE_SAMPLES = Table(
    "device_samples",
    "One measure of the GPU of a rank in one window, as NVML gives it.",
    (PASS, RANK, Column("device", "category", "Name of the GPU."), *_WINDOW),
)
SAMPLE_TABLES = (RANK_SAMPLES, HOST_SAMPLES, DEVICE_SAMPLES)

RANK_MACHINE = Table(
    "rank_machine",
    "One measure of a rank or its GPU during the steady steps of a launch, against the other ranks "
    "in the same windows.",
    (
        PASS,
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        RANK,
        _MEASURE,
        Column("windows", "int32", "Windows of the rank during its steady steps.", "windows"),
        Column("mean", "float64", "Mean over these windows.", "of measure"),
        Column(
            "low", "float64", "Lowest sample; of `flop_rate`, `mfu` 95 % interval.", "of measure"
        ),
        Column("high", "float64", "Highest sample in them; likewise.", "of measure"),
        Column(
            "others", "float64", "Mean of the other ranks in them; NaN of one rank.", "of measure"
        ),
        Column(
            "growth",
            "float64",
            "Growth per step, from the means of six equal parts of the windows; NaN of fewer.",
            "of measure/step",
        ),
        Column("growth_low", "float64", "Lower end of its 95 % interval.", "of measure/step"),
        Column("growth_high", "float64", "Upper end of its 95 % interval.", "of measure/step"),
        Column(
            "last_growth", "float64", "Growth between the last two of the parts.", "of measure/step"
        ),
        Column("num_above", "int32", "Windows in which it is above all other ranks.", "windows"),
        Column("num_below", "int32", "Windows in which it is below all other ranks.", "windows"),
        Column(
            "chance",
            "float64",
            "How often equal ranks give any of them as many such windows, above or below; sign "
            "test, times the number of ranks, at most 1. NaN of one rank.",
        ),
    ),
)

_METHOD = Column(
    "method",
    "category",
    "tcp (plain TCP), broadcast (from one rank to another through Horovod) or allreduce (of one "
    "rank on every host).",
)
_FROM = Column("from_host", "category", "Host that sends; `all` for allreduce.")
_TO = Column("to_host", "category", "Host that replies; `all` for allreduce.")

NET_TRANSFERS = Table(
    "net_transfers",
    "One timed message between two hosts, or one timed allreduce of all of them.",
    (
        _METHOD,
        _FROM,
        _TO,
        Column("np", "int64", "Participating ranks."),
        Column("size_bytes", "int64", "Size of the message.", "bytes"),
        Column("round", "int64", "Number of the repetition, from 0."),
        Column(
            "time_ns", "int64", "Half of the round-trip time; the whole time of an allreduce.", "ns"
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
        Column("np", "int64", "Participating ranks."),
        Column("num_messages", "int64", "Timed messages."),
        Column("num_sizes", "int64", "Sizes among them."),
        Column("smallest_bytes", "int64", "Smallest size.", "bytes"),
        Column("largest_bytes", "int64", "Largest size.", "bytes"),
        Column("latency_ns", "float64", "Median time of the smallest message.", "ns"),
        Column("latency_low_ns", "float64", "Lower end of the 95 % interval of the median.", "ns"),
        Column("latency_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column("alpha_ns", "float64", "Time of an empty message, from the fit.", "ns"),
        Column("alpha_low_ns", "float64", "Lower end of the 95 % interval.", "ns"),
        Column("alpha_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column("beta_ns_per_mb", "float64", "Additional time per million bytes.", "ns/MB"),
        Column("beta_low_ns_per_mb", "float64", "Lower end of the 95 % interval.", "ns/MB"),
        Column("beta_high_ns_per_mb", "float64", "Upper end of the 95 % interval.", "ns/MB"),
        Column("bandwidth_gb_per_s", "float64", "Bandwidth for large messages, 1 / beta.", "GB/s"),
        Column("bandwidth_low_gb_per_s", "float64", "Lower end of the 95 % interval.", "GB/s"),
        Column("bandwidth_high_gb_per_s", "float64", "Upper end of the 95 % interval.", "GB/s"),
        Column("reason", "str", "Why there is no fit; empty where there is one."),
    ),
)

NET_HOSTS = Table(
    "net_hosts",
    "The link of one host, measured by its fastest pair, against the median of the other hosts; "
    "for three hosts or more.",
    (
        _METHOD,
        Column("host", "category", "The host."),
        Column("num_pairs", "int64", "Fitted pairs that contain the host."),
        Column("bandwidth_gb_per_s", "float64", "Bandwidth of its fastest pair.", "GB/s"),
        Column("bandwidth_low_gb_per_s", "float64", "Lower end of the 95 % interval.", "GB/s"),
        Column("bandwidth_high_gb_per_s", "float64", "Upper end of the 95 % interval.", "GB/s"),
        Column(
            "typical_gb_per_s", "float64", "Median `bandwidth_gb_per_s` of the other hosts.", "GB/s"
        ),
        Column(
            "bandwidth_share", "float64", "Bandwidth divided by that of the other hosts.", "ratio"
        ),
        Column("bandwidth_share_low", "float64", "Lower end, from both intervals.", "ratio"),
        Column("bandwidth_share_high", "float64", "Upper end, from both intervals.", "ratio"),
        Column("latency_ns", "float64", "Latency of its fastest pair.", "ns"),
        Column("latency_low_ns", "float64", "Lower end of the 95 % interval.", "ns"),
        Column("latency_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column("typical_latency_ns", "float64", "Median `latency_ns` of the other hosts.", "ns"),
        Column("latency_ratio", "float64", "Latency divided by that of the other hosts.", "ratio"),
        Column("latency_ratio_low", "float64", "Lower end, from both intervals.", "ratio"),
        Column("latency_ratio_high", "float64", "Upper end, from both intervals.", "ratio"),
    ),
)

NET_USE = Table(
    "net_use",
    "Bus bandwidth of large allreduces of the job, against the allreduce measured alone among the "
    "same hosts (bus bandwidth as in nccl-tests, PERFORMANCE.md).",
    (
        Column("np", "int64", "Ranks of the job."),
        Column("num_hosts", "int64", "Hosts of the job, all of them measured."),
        Column(
            "num_executions",
            "int64",
            "Allreduces large enough to be limited by bandwidth, not latency.",
        ),
        Column("size_bytes", "float64", "Their median payload.", "bytes"),
        Column("busbw_gb_per_s", "float64", "Their median bus bandwidth.", "GB/s"),
        Column("busbw_low_gb_per_s", "float64", "Lower end of the 95 % interval.", "GB/s"),
        Column("busbw_high_gb_per_s", "float64", "Upper end of the 95 % interval.", "GB/s"),
        Column(
            "allowed_gb_per_s",
            "float64",
            "Bus bandwidth of the measured allreduce at that payload.",
            "GB/s",
        ),
        Column("allowed_low_gb_per_s", "float64", "Lower end of the 95 % interval.", "GB/s"),
        Column("allowed_high_gb_per_s", "float64", "Upper end of the 95 % interval.", "GB/s"),
        Column("share", "float64", "`busbw_gb_per_s` divided by `allowed_gb_per_s`.", "ratio"),
        Column("share_low", "float64", "Lower end, from both intervals.", "ratio"),
        Column("share_high", "float64", "Upper end, from both intervals.", "ratio"),
        Column("reason", "str", "Why there is no comparison; empty where there is one."),
    ),
)

NET_TABLES: tuple[Table, ...] = (NET_TRANSFERS, NET_LINKS, NET_HOSTS, NET_USE)
