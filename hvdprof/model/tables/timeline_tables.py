"""Tables of timeline files and of what is derived from them, beside their rows in ``EVENTS``."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.run_tables import CLOCK_ERROR, PASS, SEGMENT

_STEP = Column(
    "step",
    "int64",
    "Number of the step within its segment, from 0; -1 outside steps. Recorded by the ranks, or "
    "that of `inferred_steps` where no rank recorded.",
)
_COLLECTIVE = Column(
    "collective",
    "category",
    "ALLREDUCE, ADASUM, BROADCAST ...; ERROR where ranks did not agree on the tensor.",
)
_WARMUP_DOC = (
    "Not part of the steady state: the first use of a tensor in the file, a broadcast, or an "
    "execution with initialisation (`INIT_...`)."
)
TENSOR_USES = Table(
    "tensor_uses",
    "One use of one tensor in a Horovod timeline: its negotiation and its operation. Never sum "
    "`dur_ns` over tensors, because fused tensors share one execution: `tensors` and `executions` "
    "count it once. Phantom negotiations (a joined rank answers for every cached tensor) are no "
    "uses.",
    (
        PASS,
        SEGMENT,
        _STEP,
        Column("tensor", "category", "Name of the tensor as in the file."),
        Column("occurrence", "int64", "Number of earlier uses of this tensor in the file, from 0."),
        _COLLECTIVE,
        Column(
            "fusion_id",
            "int64",
            "Its row of `executions`; -1 where it was not executed within the file.",
        ),
        Column(
            "negotiation_start_ns",
            "Int64",
            "Time at which the first rank is ready, as rank 0 records it, on rank 0's monotonic "
            "clock; missing where the recording starts later.",
            "ns",
        ),
        Column(
            "negotiation_ns",
            "Int64",
            "Time from the first ready rank to the last, in whole cycles of Horovod's loop; "
            "missing "
            "where the end is not in the file.",
            "ns",
        ),
        Column(
            "start_ns",
            "Int64",
            "Start of the operation on rank 0's monotonic clock; missing where the file ends "
            "earlier.",
            "ns",
        ),
        Column(
            "dur_ns",
            "Int64",
            "Length of the operation, that of the whole execution for each of its fused tensors; "
            "missing where the end is not in the file.",
            "ns",
        ),
        Column(
            "size_bytes",
            "Int64",
            "Payload of the tensor after compression; missing where Horovod does not write it "
            "(ALLTOALL, broadcasts from rank 0).",
            "bytes",
        ),
        Column("dtype", "category", "Type of its elements; empty where unknown."),
        Column(
            "num_ticks",
            "int64",
            "Ranks with a ready mark in the file; 0 for tensors in the response cache.",
        ),
        Column(
            "first_rank",
            "Int64",
            "First ready rank, within the tensor's process set; missing where others follow within "
            "the same cycle of Horovod's loop, in which the order is unknown.",
        ),
        Column(
            "last_rank",
            "Int64",
            "Last ready rank, within the tensor's process set; missing where the second-last is in "
            "the same cycle, and where the file holds fewer than two ready marks.",
        ),
        Column(
            "last_after_ns", "Int64", "Gap between the second-last ready mark and the last.", "ns"
        ),
        Column("warmup", "bool", _WARMUP_DOC),
        CLOCK_ERROR,
    ),
)
EXECUTIONS = Table(
    "executions",
    "One execution of one tensor, or of several fused tensors; sum durations and bytes over these "
    "rows. Parts are those of the first tensor; Horovod stamps the others microseconds apart.",
    (
        PASS,
        SEGMENT,
        _STEP,
        Column("fusion_id", "int64", "Number of the execution within its file, from 0."),
        _COLLECTIVE,
        Column("num_tensors", "int64", "Number of tensors."),
        Column(
            "size_bytes",
            "Int64",
            "Payload of all tensors after compression; missing where that of one is unknown.",
            "bytes",
        ),
        Column("start_ns", "int64", "Start on rank 0's monotonic clock.", "ns"),
        Column(
            "dur_ns",
            "Int64",
            "From the first start to the last end; missing where the end of a tensor is not in the "
            "file.",
            "ns",
        ),
        Column(
            "init_ns", "int64", "Time in `INIT_...`: creation of buffers and communicators.", "ns"
        ),
        Column("wait_ns", "int64", "Time in `WAIT_...`: data not computed yet (GPU).", "ns"),
        Column("queue_ns", "int64", "Time in `QUEUE`: earlier work on Horovod's stream.", "ns"),
        Column(
            "copy_ns", "int64", "Time in `MEMCPY_...` and `ALLOCATE_...`: packing, buffers.", "ns"
        ),
        Column(
            "transfer_ns",
            "int64",
            "Time in the activities of the communication library; includes waiting for stragglers.",
            "ns",
        ),
        Column("warmup", "bool", _WARMUP_DOC),
        CLOCK_ERROR,
    ),
)
INFERRED_STEPS = Table(
    "inferred_steps",
    "One training step inferred from a Horovod timeline: a recurring set of reduced tensors. "
    "Estimated only where no rank recorded steps.",
    (
        PASS,
        SEGMENT,
        Column("step", "int64", "Number of the step, from 0."),
        Column(
            "start_ns",
            "int64",
            "Start of the negotiation of its first gradient, on rank 0's monotonic clock.",
            "ns",
        ),
        Column(
            "dur_ns", "Int64", "Time to the start of the next step; missing for the last.", "ns"
        ),
        Column(
            "communication_ns", "int64", "From its start to the end of its last reduction.", "ns"
        ),
        Column("num_tensors", "int64", "Reduced tensors."),
        Column(
            "size_bytes",
            "Int64",
            "Reduced bytes; missing where the size of a tensor is unknown.",
            "bytes",
        ),
        Column("complete", "bool", "The step holds the whole recurring set."),
        Column(
            "confidence",
            "float64",
            "0 to 1, the same for all steps of a file: share of complete rounds, times the share "
            "of "
            "reductions in the set, times the share of rounds that start after the longest pause.",
            "ratio",
        ),
        CLOCK_ERROR,
    ),
)
PENDING_NEGOTIATIONS = Table(
    "pending_negotiations",
    "One tensor whose negotiation is pending at the end of a Horovod timeline: a rank hangs or "
    "never reaches the collective, or the recording ended there.",
    (
        PASS,
        SEGMENT,
        Column("tensor", "category", "Name of the tensor as in the file."),
        _COLLECTIVE,
        Column(
            "negotiation_start_ns",
            "int64",
            "Time at which the first rank is ready, on rank 0's monotonic clock.",
            "ns",
        ),
        Column("pending_ns", "int64", "Time from there to the last event of the file.", "ns"),
        Column(
            "submitted_ranks",
            "str",
            "Ranks that have submitted the tensor, joined by a comma; empty where the response "
            "cache hides them, and for tensors of a process set, whose ranks are not those of the "
            "job.",
        ),
        Column(
            "missing_ranks",
            "str",
            "Ranks named elsewhere in the file that have not submitted it; empty where "
            "`submitted_ranks` is.",
        ),
        CLOCK_ERROR,
    ),
)
TIMELINES = Table(
    "timelines",
    "One Horovod timeline file.",
    (
        Column("pass_id", "category", "Pass in a run directory; else the file as named."),
        Column("segment", "category", "Segment in a run directory; else empty."),
        Column("writer", "str", "Versions of Horovod that write this format."),
        Column("time_zero", "category", "Meaning of time 0 of the file."),
        Column(
            "epoch_ns",
            "Int64",
            "Wall clock at time 0 of the file; the same in all files of one process, so their "
            "times "
            "share one axis. Missing before Horovod 0.20.1.",
            "ns",
        ),
        Column("text_bytes", "int64", "Size as read, after decompression.", "bytes"),
        Column("num_events", "int64", "Rows of EVENTS."),
        Column("span_ns", "int64", "From the start of the first event to the latest end.", "ns"),
        Column("backends", "str", "Communication libraries, joined by a comma."),
        Column("frameworks", "str", "Frameworks recognised by tensor names."),
        Column("np", "Int64", "Number of ranks; missing where the file does not show it."),
        Column("np_reason", "str", "Source of the number of ranks, or why it is unknown."),
        Column("num_tensors", "int64", "Tensors in use."),
        Column("num_executions", "int64", "Executions of one or several fused tensors."),
        Column("num_fused_executions", "int64", "Executions of several tensors."),
        Column("num_phantoms", "int64", "Negotiations without an operation, excluded."),
        Column("num_errors", "int64", "Operations that Horovod refused."),
        Column(
            "num_recordings",
            "int64",
            "Recordings of different processes in the file, by their headers; 0 without a header.",
        ),
        Column(
            "num_time_jumps",
            "int64",
            "Places at which the times of the file fall back by 1 ms or more, as Horovod never "
            "writes them.",
        ),
        Column("rank_ticks", "category", "none, first use, some uses or every use."),
        Column("rank_ticks_sentence", "str", "Consequence for naming the straggler."),
        Column("autotuned", "bool", "Autotuning was probably on."),
        Column("torus", "bool", "The file holds stages of the torus allreduce."),
    ),
)
