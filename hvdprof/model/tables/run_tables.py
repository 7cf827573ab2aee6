"""The tables of what a run recorded; ``table_catalogue`` lists those of all modules."""

from hvdprof.model.schema import Column, Table

PASS = Column("pass_id", "category", "Folder name of the pass, as in the manifest.")
SEGMENT = Column("segment", "category", "Id of the segment within the pass, as in the plan.")
RANK = Column("rank", "int32", "Rank as `hvd.rank()` returns it.")
STEP = Column("step", "int64", "Number of the step within its segment, from 0; -1 outside steps.")
_NUM_STEPS = Column(
    "num_steps",
    "int64",
    "1; in a light recording the number of steps of the window whose mean step this is: it "
    "begins at `start_ns` and lasts `num_steps` times `dur_ns`.",
)
_START = Column("start_ns", "int64", "Start on rank 0's monotonic clock.", "ns")
CLOCK_ERROR = Column(
    "clock_error_ns",
    "int64",
    "Largest error of the alignment of this rank's clock to rank 0's.",
    "ns",
)

SEGMENTS = Table(
    "segments",
    "One segment of one pass: a model with its toggles, trained in one launch.",
    (
        PASS,
        SEGMENT,
        Column("mode", "category", "Way of measuring: throughput, trace or attribution."),
        Column("repeat", "int32", "Number of the repeat, from 1."),
        Column(
            "engine",
            "category",
            "horovod, ddp, fsdp for FSDP2, collectives for torch.distributed otherwise, torch for "
            "plain PyTorch alone, or unknown where attached files do not say it.",
        ),
        Column("model", "category", "Name of the reference model."),
        Column("size", "int32", "Number of ranks, as `hvd.size()` returns it."),
        Column("compression", "category", "Gradient compression: none or fp16."),
        Column("reduction", "category", "Reduction of the gradients: average or adasum."),
        Column(
            "batch_size", "int64", "Samples per rank and step; 0 where not recorded.", "samples"
        ),
        Column("image_size", "int64", "Edge of the square input image.", "pixels"),
        Column(
            "status",
            "category",
            "planned, running or partial (with enough steps for a result), done, failed or "
            "interrupted.",
        ),
        Column("num_ranks_recorded", "int32", "Ranks whose recorder file holds this segment."),
        Column("num_tensors", "int64", "Gradient tensors watched by the recorder on rank 0."),
        Column("gradient_bytes", "int64", "Size of all gradients before compression.", "bytes"),
        Column("sent_bytes", "int64", "Size of all gradients after compression.", "bytes"),
        Column("oversubscribed", "bool", "More ranks than cores (or GPUs) on a host."),
        Column("pinned", "bool", "Each rank was pinned to its own cores."),
        Column(
            "busy_cores",
            "float64",
            "Processor time of all ranks and of the workers they started, divided by the time of "
            "their steps; NaN where unknown.",
            "cores",
        ),
        Column(
            "startup_ns",
            "float64",
            "Time from the start of the launcher to the first step of rank 0, by the wall clocks "
            "of their hosts; NaN where unknown, and for all but the first segment of a launch.",
            "ns",
        ),
    ),
)

STEPS = Table(
    "steps",
    "One optimizer step on one rank, from its recorder file; in a light recording the mean step of "
    "a window.",
    (
        PASS,
        SEGMENT,
        RANK,
        STEP,
        Column(
            "warmup",
            "bool",
            "Excluded from results: part of the counted warm-up batches, or all ranks evaluate.",
        ),
        _START,
        Column("dur_ns", "int64", "Length of the step.", "ns"),
        _NUM_STEPS,
        Column("data_ns", "int64", "Time in the data phase.", "ns"),
        Column("forward_ns", "int64", "Time in the forward phase, the loss included.", "ns"),
        Column("backward_ns", "int64", "Time in the backward phase.", "ns"),
        Column(
            "blocked_ns",
            "Int64",
            "Blocked: time in `synchronize()`, or under DDP at the end of `backward()`; includes "
            "waiting for stragglers and decompression. Missing where the recorder cannot measure "
            "it.",
            "ns",
        ),
        Column(
            "before_update_ns",
            "int64",
            "Time from the end of backward to the update, outside other phases: clipping, "
            "unscaling. 0 in recordings of earlier versions, which count it as `outside_ns`.",
            "ns",
        ),
        Column("optimizer_ns", "int64", "Local parameter update, blocked time excluded.", "ns"),
        Column(
            "outside_ns", "int64", "Rest of the step: outside all phases, or not measured.", "ns"
        ),
        Column("samples", "int64", "Samples this rank trained on in the step.", "samples"),
        Column("loss", "float64", "Training loss of this rank; NaN where not recorded."),
        Column(
            "evaluation",
            "bool",
            "This rank evaluates in the step: a forward pass without training, before its batch. "
            "Where all ranks do, the step begins after it and is warm-up.",
        ),
        CLOCK_ERROR,
    ),
)

ARRIVALS = Table(
    "arrivals",
    "Ready time of one gradient on one rank in one step.",
    (
        PASS,
        SEGMENT,
        RANK,
        STEP,
        Column("tensor", "category", "Name of the request as Horovod knows it."),
        Column(
            "ready_ns",
            "int64",
            "Time at which backward has produced the gradient, on rank 0's monotonic clock.",
            "ns",
        ),
        CLOCK_ERROR,
    ),
)

WAITS = Table(
    "waits",
    "One wait of one rank for other ranks in one step, where a step has several synchronizations: "
    "FSDP2, or collectives that the script calls itself. A step with `grad_reduce` waits alone has "
    "no rows: its waits are the `blocked` rows of `events`.",
    (
        PASS,
        SEGMENT,
        RANK,
        STEP,
        Column("number", "int64", "Number of the wait in the step of the rank, from 0."),
        Column(
            "kind",
            "category",
            "grad_reduce (all gradients, Horovod and DDP), unshard_forward or unshard_backward "
            "(all-gather of the parameters of an FSDP2 group), reduce_scatter (gradients of an "
            "FSDP2 group), or user (a collective that the script calls itself).",
        ),
        Column(
            "num_ranks",
            "int64",
            "Ranks that all wait for each other there, such as those of the process group; 0 where "
            "unknown, or where some do not wait, as in a broadcast.",
        ),
        Column(
            "submitted_ns",
            "Int64",
            "Time at which the rank submitted the collective, on rank 0's monotonic clock; missing "
            "where unknown. It is before `start_ns` where the rank computes meanwhile.",
            "ns",
        ),
        Column("start_ns", "int64", "Start of the wait on rank 0's monotonic clock.", "ns"),
        Column("dur_ns", "int64", "Length of the wait, its transfer included.", "ns"),
        CLOCK_ERROR,
    ),
)

GRADIENTS = Table(
    "gradients",
    "One gradient of one launch, as the recorder of a rank watches it.",
    (
        PASS,
        SEGMENT,
        Column("tensor", "category", "Name of the request as Horovod knows it."),
        Column("size_bytes", "int64", "Its size before compression.", "bytes"),
        Column(
            "sent_bytes",
            "int64",
            "What a rank sends of it per step, after compression; 0 on 1 rank.",
            "bytes",
        ),
    ),
)

EVENTS = Table(
    "events",
    "One interval or instant on one rank. Durations and bytes count once per `fusion_id`, never "
    "once per tensor.",
    (
        PASS,
        SEGMENT,
        Column(
            "source",
            "category",
            "Producer: recorder, or timeline; for DDP the records of its communication hook.",
        ),
        RANK,
        Column(
            "step",
            "int64",
            "Number of the step within its segment, from 0; -1 outside steps. That of "
            "`inferred_steps` for timelines without recorder files.",
        ),
        Column(
            "phase",
            "category",
            "negotiation, operation or activity of Horovod; phantom for a negotiation without an "
            "operation (a joined rank answers for every cached tensor), which is no use of the "
            "tensor; part of a recorded step; mark for instants.",
        ),
        Column(
            "activity",
            "category",
            "The producer's own name, verbatim. The mark `1` of a tensor is Horovod's note that "
            "rank 1 of the tensor's process set was ready, as rank 0 records it.",
        ),
        Column("collective", "category", "ALLREDUCE, ADASUM, BROADCAST ...; empty where none."),
        Column("tensor", "category", "Name of the tensor as in the file; empty where none."),
        Column("occurrence", "int64", "Number of earlier uses of this tensor in the file, from 0."),
        Column(
            "fusion_id",
            "int64",
            "Same number for all operation and activity rows of one fused execution; -1 on all "
            "others.",
        ),
        _START,
        Column(
            "dur_ns",
            "int64",
            "Length; 0 for an instant, -1 where the end is not in the file.",
            "ns",
        ),
        Column(
            "size_bytes",
            "Int64",
            "Payload of the tensor after compression, on rows of phase operation; missing where "
            "unknown and on all others.",
            "bytes",
        ),
        CLOCK_ERROR,
    ),
)

RANKS = Table(
    "ranks",
    "One rank of one pass, from the header of its recorder file.",
    (
        PASS,
        RANK,
        Column("local_rank", "int32", "Rank within its host, as `hvd.local_rank()`."),
        Column("hostname", "category", "Host of the rank."),
        Column("device", "category", "cpu, or cuda with the index of the GPU."),
        Column("gpu", "category", "UUID of its GPU; empty on CPUs and where not recorded."),
        Column("num_gpus", "int64", "GPUs that it sees; 0 without any and where unknown."),
        Column(
            "backend",
            "category",
            "What reduces its tensors: nccl, gloo, mpi; empty where not recorded.",
        ),
        Column(
            "engine",
            "category",
            "ddp, fsdp or collectives where torch.distributed connects the ranks; empty under "
            "Horovod and without either, unknown where traces do not say it.",
        ),
        Column("pid", "int64", "Process id on its host."),
        Column("num_threads", "int64", "Threads of torch; -1 where unknown."),
        Column("num_affinity_cores", "int64", "Cores in its affinity mask; 0 where unknown."),
        Column(
            "clock_method",
            "category",
            "Alignment of its clock to rank 0's: same-clock, tcp, wall-clock, collectives (their "
            "ends, in traces) or none.",
        ),
        Column("clock_offset_ns", "int64", "Aligned time minus its own time, at the start.", "ns"),
        Column("clock_drift_ppm", "float64", "Drift: change of that offset per time.", "ppm"),
        CLOCK_ERROR,
        Column("ended", "bool", "The rank ended by itself; false where it was killed."),
    ),
)

TURNS = Table(
    "turns",
    "One turn of a launch that is resident with others: its steps ran while the others were "
    "stopped.",
    (
        PASS,
        SEGMENT,
        Column("round", "int64", "Number of the round, from 0: one turn of each launch per round."),
        Column("first_step", "int64", "Number of its first measured step."),
        Column("num_steps", "int64", "Measured steps."),
        Column("dur_ns", "int64", "Length, the steps before the measured ones included.", "ns"),
        Column(
            "other_cores",
            "float64",
            "Cores kept busy by processes outside the launch; NaN where unknown.",
            "cores",
        ),
        Column(
            "steal_share",
            "float64",
            "Share of processor time that the hypervisor took; NaN where unknown.",
            "ratio",
        ),
    ),
)
