"""Tables on the parts of a step, overlap of communication, cost of collectives and of tensors."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.run_tables import PASS, SEGMENT

TENSORS = Table(
    "tensors",
    "One tensor of one launch. Fused time counts once: `time_ns` plus `warmup_ns` of all tensors "
    "is the sum of `dur_ns` over `executions`.",
    (
        PASS,
        SEGMENT,
        Column("tensor", "category", "Name of the tensor as in the file."),
        Column("collective", "category", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_uses", "int64", "Executions of the tensor, warm-up included."),
        Column(
            "size_bytes", "Int64", "Bytes of all its uses; missing where one is unknown.", "bytes"
        ),
        Column(
            "time_ns",
            "float64",
            "Time of its executions in the steady state; of a fused execution its share by bytes "
            "(in equal parts where a size is unknown).",
            "ns",
        ),
        Column("warmup_ns", "float64", "The same for its executions in warm-up.", "ns"),
        Column("negotiation_ns", "int64", "Sum of its negotiations, warm-up included.", "ns"),
    ),
)
STEP_COMMUNICATION = Table(
    "step_communication",
    "Communication in one step, as rank 0 records it. Unions of intervals: time in which several "
    "tensors are negotiated or executed counts once.",
    (
        PASS,
        SEGMENT,
        Column("step", "int64", "Number of the step within its segment, from 0."),
        Column("num_executions", "int64", "Fused executions that belong to the step."),
        Column(
            "size_bytes", "Int64", "Bytes of them; missing where that of one is unknown.", "bytes"
        ),
        Column("negotiation_ns", "int64", "At least one of their tensors is negotiated.", "ns"),
        Column("execution_ns", "int64", "At least one of them is executed.", "ns"),
        Column("communication_ns", "int64", "Either of both; the union of the two.", "ns"),
    ),
)
_RANK = Column("rank", "int64", "Rank as `hvd.rank()` returns it.")
_STEP = Column("step", "int64", "Number of the step within its segment, from 0.")
BREAKDOWN = Table(
    "breakdown",
    "One part of the mean steady step of one rank in one launch; the parts sum to the step.",
    (
        PASS,
        SEGMENT,
        _RANK,
        Column(
            "part",
            "str",
            "data, forward, backward, blocked (by ranks or communication), "
            "optimizer or outside (in no phase).",
        ),
        Column("time_ns", "float64", "Mean time of the part per step.", "ns"),
        Column("time_low_ns", "float64", "Lower end of the 95 % interval within the launch.", "ns"),
        Column("time_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column("share", "float64", "`time_ns` divided by the mean step of the rank.", "ratio"),
    ),
)
OVERLAP = Table(
    "overlap",
    "Overlap of collectives with one rank's own computation in one step of a trace pass. Unions of "
    "intervals: fused tensors count once.",
    (
        PASS,
        SEGMENT,
        _RANK,
        _STEP,
        Column(
            "communication_ns",
            "int64",
            "Time in which at least one collective is in progress (queue, copies and transfer), as "
            "rank 0 records it, within this rank's step.",
            "ns",
        ),
        Column("overlapped_ns", "int64", "Part of it covered by the rank's own computation.", "ns"),
        Column("exposed_ns", "int64", "Exposed communication: the part not covered.", "ns"),
        Column(
            "blocking_exposed_ns",
            "int64",
            "Part of `exposed_ns` during which the rank is blocked in `synchronize()`.",
            "ns",
        ),
    ),
)
COLLECTIVES = Table(
    "collectives",
    "One fused execution of a collective, from Horovod's timeline.",
    (
        PASS,
        SEGMENT,
        _STEP,
        Column("fusion_id", "int64", "Number of the execution, as in `events`."),
        Column("collective", "category", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_tensors", "int64", "Tensors fused into it."),
        Column("size_bytes", "Int64", "Payload after compression; missing where unknown.", "bytes"),
        Column("start_ns", "int64", "Start of the execution, after negotiation.", "ns"),
        Column("dur_ns", "Int64", "Length; missing where the end is not in the file.", "ns"),
        Column("queue_ns", "int64", "Waiting for data and in queues.", "ns"),
        Column("copy_ns", "int64", "Copies into and out of the fusion buffer.", "ns"),
        Column("transfer_ns", "int64", "The transfer alone.", "ns"),
        Column("negotiation_ns", "Int64", "Longest negotiation of its tensors.", "ns"),
        Column(
            "hold_ns",
            "Int64",
            "Longest time from the end of a tensor's negotiation to the start: the wait for the "
            "other "
            "tensors of the fusion and for the previous execution.",
            "ns",
        ),
        Column(
            "lag_ns",
            "Int64",
            "Time from the last ready gradient on the last rank to the start; missing without "
            "recorder files.",
            "ns",
        ),
        Column("algbw_gb_per_s", "float64", "Payload divided by transfer time.", "GB/s"),
        Column(
            "busbw_gb_per_s",
            "float64",
            "`algbw_gb_per_s` times the bus factor of nccl-tests; NaN where the number of ranks is "
            "unknown.",
            "GB/s",
        ),
        Column(
            "fill",
            "float64",
            "Payload divided by the fusion threshold; NaN where unknown.",
            "ratio",
        ),
        Column("warmup", "bool", "Belongs to warm-up."),
    ),
)
LINK_FIT = Table(
    "link_fit",
    "Transfer time against payload: `alpha + beta * bytes`, fitted over the executions of all "
    "launches that share number of ranks, collective and controller.",
    (
        Column("np", "int64", "Number of ranks."),
        Column("collective", "str", "ALLREDUCE, ADASUM, BROADCAST ..."),
        Column("num_executions", "int64", "Executions used in the fit."),
        Column("num_sizes", "int64", "Different payloads among them."),
        Column("smallest_bytes", "int64", "Smallest payload.", "bytes"),
        Column("largest_bytes", "int64", "Largest payload.", "bytes"),
        Column("alpha_ns", "float64", "Time of an empty message.", "ns"),
        Column("alpha_low_ns", "float64", "Lower end of the 95 % interval.", "ns"),
        Column("alpha_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column("beta_ns_per_mb", "float64", "Additional time per million bytes.", "ns/MB"),
        Column("beta_low_ns_per_mb", "float64", "Lower end of the 95 % interval.", "ns/MB"),
        Column("beta_high_ns_per_mb", "float64", "Upper end of the 95 % interval.", "ns/MB"),
        Column("bandwidth_gb_per_s", "float64", "Bandwidth for large payloads, 1 / beta.", "GB/s"),
        Column("bandwidth_low_gb_per_s", "float64", "Lower end of the 95 % interval.", "GB/s"),
        Column("bandwidth_high_gb_per_s", "float64", "Upper end of the 95 % interval.", "GB/s"),
        Column("reason", "str", "Why there is no fit; empty where there is one."),
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
