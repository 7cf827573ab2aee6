"""Tables on the machine: samples of ranks, hosts and GPUs, and the network between hosts."""

from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_RANK = Column("rank", "int32", "", "Rank as `hvd.rank()` returns it.")
_MEASURE = Column("measure", "category", "", "What was sampled, as docs/howto/machine.md lists it.")
_WINDOW = (
    Column("start_ns", "int64", "ns", "Begin of the window on rank 0's monotonic clock."),
    Column("duration_ns", "int64", "ns", "Length of the window."),
    _MEASURE,
    Column("samples", "int64", "samples", "Samples in the window."),
    Column("mean", "float64", "of measure", "Their mean; of a count its growth per second."),
    Column("low", "float64", "of measure", "The least of them."),
    Column("median", "float64", "of measure", "Their median."),
    Column("high", "float64", "of measure", "The most of them."),
)

RANK_SAMPLES = Table(
    "rank_samples",
    "One measure of the process of a rank in one window: processor time, waits for a core, memory.",
    (_PASS, _RANK, *_WINDOW),
)
HOST_SAMPLES = Table(
    "host_samples",
    "One measure of a host in one window, sampled by the first rank there.",
    (_PASS, _RANK, *_WINDOW),
)
DEVICE_SAMPLES = Table(
    "device_samples",
    "One measure of the GPU of a rank in one window, as NVML gives it.",
    (_PASS, _RANK, Column("device", "category", "", "Name of the GPU."), *_WINDOW),
)
SAMPLE_TABLES = (RANK_SAMPLES, HOST_SAMPLES, DEVICE_SAMPLES)

RANK_MACHINE = Table(
    "rank_machine",
    "One measure of a rank or its GPU during the steady steps of a launch, against the other ranks "
    "in the same windows.",
    (
        _PASS,
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        _RANK,
        _MEASURE,
        Column("windows", "int32", "windows", "Windows of the rank during its steady steps."),
        Column("mean", "float64", "of measure", "Mean over these windows."),
        Column(
            "low",
            "float64",
            "of measure",
            "Lowest sample; of `flop_rate`, `mfu` 95 % interval.",
        ),
        Column("high", "float64", "of measure", "Highest sample in them; likewise."),
        Column(
            "others", "float64", "of measure", "Mean of the other ranks in them; NaN of one rank."
        ),
        Column(
            "growth",
            "float64",
            "of measure/step",
            "Growth per step, from the means of six equal parts of the windows; NaN of fewer.",
        ),
        Column("growth_low", "float64", "of measure/step", "Lower end of its 95 % interval."),
        Column("growth_high", "float64", "of measure/step", "Upper end of its 95 % interval."),
        Column(
            "last_growth", "float64", "of measure/step", "Growth between the last two of the parts."
        ),
        Column("num_above", "int32", "windows", "Windows in which it is above all other ranks."),
        Column("num_below", "int32", "windows", "Windows in which it is below all other ranks."),
        Column(
            "chance",
            "float64",
            "",
            "How often equal ranks give any of them as many such windows, above or below; sign "
            "test, times the number of ranks, at most 1. NaN of one rank.",
        ),
    ),
)

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
