"""Tables on the parts of a step, overlap of communication, cost of collectives and of tensors."""

from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_SEGMENT = Column("segment", "category", "", "Id of the segment within the pass, as in the plan.")
TENSORS = Table(
    "tensors",
    "One tensor of one launch. Fused time counts once: `time_ns` plus `warmup_ns` of all tensors "
    "is the sum of `dur_ns` over `executions`.",
    (
        _PASS,
        _SEGMENT,
        Column("tensor", "category", "", "Name of the tensor as in the file."),
        Column("collective", "category", "", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_uses", "int64", "", "Executions of the tensor, warm-up included."),
        Column(
            "size_bytes", "Int64", "bytes", "Bytes of all its uses; missing where one is unknown."
        ),
        Column(
            "time_ns",
            "float64",
            "ns",
            "Time of its executions in the steady state; of a fused execution its share by bytes "
            "(in equal parts where a size is unknown).",
        ),
        Column("warmup_ns", "float64", "ns", "The same for its executions in warm-up."),
        Column("negotiation_ns", "int64", "ns", "Sum of its negotiations, warm-up included."),
    ),
)
STEP_COMMUNICATION = Table(
    "step_communication",
    "Communication in one step, as rank 0 records it. Unions of intervals: time in which several "
    "tensors are negotiated or executed counts once.",
    (
        _PASS,
        _SEGMENT,
        Column("step", "int64", "", "Number of the step within its segment, from 0."),
        Column("num_executions", "int64", "", "Fused executions that belong to the step."),
        Column(
            "size_bytes", "Int64", "bytes", "Bytes of them; missing where that of one is unknown."
        ),
        Column("negotiation_ns", "int64", "ns", "At least one of their tensors is negotiated."),
        Column("execution_ns", "int64", "ns", "At least one of them is executed."),
        Column("communication_ns", "int64", "ns", "Either of both; the union of the two."),
    ),
)
_RANK = Column("rank", "int64", "", "Rank as `hvd.rank()` returns it.")
_STEP = Column("step", "int64", "", "Number of the step within its segment, from 0.")
BREAKDOWN = Table(
    "breakdown",
    "One part of the mean steady step of one rank in one launch; the parts sum to the step.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        Column(
            "part",
            "str",
            "",
            "data, forward, backward, blocked (by ranks or communication), "
            "optimizer or outside (in no phase).",
        ),
        Column("time_ns", "float64", "ns", "Mean time of the part per step."),
        Column("time_low_ns", "float64", "ns", "Lower end of the 95 % interval within the launch."),
        Column("time_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("share", "float64", "ratio", "`time_ns` divided by the mean step of the rank."),
    ),
)
OVERLAP = Table(
    "overlap",
    "Overlap of collectives with one rank's own computation in one step of a trace pass. Unions of "
    "intervals: fused tensors count once.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        _STEP,
        Column(
            "communication_ns",
            "int64",
            "ns",
            "Time in which at least one collective is in progress (queue, copies and transfer), as "
            "rank 0 records it, within this rank's step.",
        ),
        Column("overlapped_ns", "int64", "ns", "Part of it covered by the rank's own computation."),
        Column("exposed_ns", "int64", "ns", "Exposed communication: the part not covered."),
        Column(
            "blocking_exposed_ns",
            "int64",
            "ns",
            "Part of `exposed_ns` during which the rank is blocked in `synchronize()`.",
        ),
    ),
)
COLLECTIVES = Table(
    "collectives",
    "One fused execution of a collective, from Horovod's timeline.",
    (
        _PASS,
        _SEGMENT,
        _STEP,
        Column("fusion_id", "int64", "", "Number of the execution, as in `events`."),
        Column("collective", "category", "", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_tensors", "int64", "", "Tensors fused into it."),
        Column("size_bytes", "Int64", "bytes", "Payload after compression; missing where unknown."),
        Column("start_ns", "int64", "ns", "Start of the execution, after negotiation."),
        Column("dur_ns", "Int64", "ns", "Length; missing where the end is not in the file."),
        Column("queue_ns", "int64", "ns", "Waiting for data and in queues."),
        Column("copy_ns", "int64", "ns", "Copies into and out of the fusion buffer."),
        Column("transfer_ns", "int64", "ns", "The transfer alone."),
        Column("negotiation_ns", "Int64", "ns", "Longest negotiation of its tensors."),
        Column(
            "hold_ns",
            "Int64",
            "ns",
            "Longest time from the end of a tensor's negotiation to the start: the wait for the "
            "other "
            "tensors of the fusion and for the previous execution.",
        ),
        Column(
            "lag_ns",
            "Int64",
            "ns",
            "Time from the last ready gradient on the last rank to the start; missing without "
            "recorder files.",
        ),
        Column("algbw_gb_per_s", "float64", "GB/s", "Payload divided by transfer time."),
        Column(
            "busbw_gb_per_s",
            "float64",
            "GB/s",
            "`algbw_gb_per_s` times the bus factor of nccl-tests; NaN where the number of ranks is "
            "unknown.",
        ),
        Column(
            "fill",
            "float64",
            "ratio",
            "Payload divided by the fusion threshold; NaN where unknown.",
        ),
        Column("warmup", "bool", "", "Belongs to warm-up."),
    ),
)
LINK_FIT = Table(
    "link_fit",
    "Transfer time against payload: `alpha + beta * bytes`, fitted over the executions of all "
    "launches that share number of ranks, collective and controller.",
    (
        Column("np", "int64", "", "Number of ranks."),
        Column("collective", "str", "", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_executions", "int64", "", "Executions used in the fit."),
        Column("num_sizes", "int64", "", "Different payloads among them."),
        Column("smallest_bytes", "int64", "bytes", "Smallest payload."),
        Column("largest_bytes", "int64", "bytes", "Largest payload."),
        Column("alpha_ns", "float64", "ns", "Time of an empty message."),
        Column("alpha_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("alpha_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column("beta_ns_per_mb", "float64", "ns/MB", "Additional time per million bytes."),
        Column("beta_low_ns_per_mb", "float64", "ns/MB", "Lower end of the 95 % interval."),
        Column("beta_high_ns_per_mb", "float64", "ns/MB", "Upper end of the 95 % interval."),
        Column("bandwidth_gb_per_s", "float64", "GB/s", "Bandwidth for large payloads, 1 / beta."),
        Column("bandwidth_low_gb_per_s", "float64", "GB/s", "Lower end of the 95 % interval."),
        Column("bandwidth_high_gb_per_s", "float64", "GB/s", "Upper end of the 95 % interval."),
        Column("reason", "str", "", "Why there is no fit; empty where there is one."),
    ),
)
COLLECTIVE_TABLES: tuple[Table, ...] = (
    TENSORS,
    STEP_COMMUNICATION,
    BREAKDOWN,
    OVERLAP,
    COLLECTIVES,
    LINK_FIT,
)
