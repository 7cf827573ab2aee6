"""The tables that are made of Horovod's timelines, beside the rows in ``model.tables.EVENTS``."""

from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_SEGMENT = Column("segment", "category", "", "Id of the segment within the pass, as in the plan.")
_STEP = Column(
    "step",
    "int64",
    "",
    "Number of the step within its segment, from 0; -1 outside steps. Recorded by the ranks, or "
    "that of `inferred_steps` where no rank recorded.",
)
_COLLECTIVE = Column(
    "collective",
    "category",
    "",
    "ALLREDUCE, ADASUM, BROADCAST ...; ERROR where ranks did not agree on the tensor.",
)
_CLOCK_ERROR = Column(
    "clock_error_ns",
    "int64",
    "ns",
    "Largest error of the alignment of this rank's clock to rank 0's.",
)
_WARMUP_DOC = (
    "Not what a steady step costs: the first use of a tensor in the file, a broadcast, or an "
    "execution that initialises something (`INIT_...`)."
)

TENSOR_USES = Table(
    "tensor_uses",
    "One use of one tensor in a Horovod timeline: its negotiation and its operation. Phantom "
    "negotiations (a joined rank answers for every cached tensor) are no uses.",
    (
        _PASS,
        _SEGMENT,
        _STEP,
        Column("tensor", "category", "", "Name of the tensor as in the file."),
        Column(
            "occurrence", "int64", "", "How often this tensor was used before in this file, from 0."
        ),
        _COLLECTIVE,
        Column(
            "fusion_id",
            "int64",
            "",
            "Its row of `executions`; -1 where it was not executed within the file.",
        ),
        Column(
            "negotiation_start_ns",
            "Int64",
            "ns",
            "When the first rank was ready, as rank 0 saw it, on rank 0's monotonic clock; missing "
            "where the recording began later.",
        ),
        Column(
            "negotiation_ns",
            "Int64",
            "ns",
            "From the first rank that was ready to the last, in whole cycles of Horovod's loop; "
            "missing where the file has no end of it.",
        ),
        Column(
            "start_ns",
            "Int64",
            "ns",
            "Start of the operation on rank 0's monotonic clock; missing where the file ends "
            "before.",
        ),
        Column("dur_ns", "Int64", "ns", "Length of the operation; missing where it does not end."),
        Column(
            "size_bytes",
            "Int64",
            "bytes",
            "Payload of the tensor after compression; missing where Horovod does not write it "
            "(ALLTOALL, broadcasts from rank 0).",
        ),
        Column("dtype", "category", "", "Type of its elements; empty where unknown."),
        Column(
            "num_ticks",
            "int64",
            "",
            "Ranks whose readiness the file tells; 0 for tensors out of the response cache.",
        ),
        Column(
            "first_rank",
            "Int64",
            "",
            "The rank that was ready first, within the tensor's process set; missing where others "
            "followed within one cycle of Horovod's loop, which does not order them.",
        ),
        Column(
            "last_rank",
            "Int64",
            "",
            "The rank that was ready last, within the tensor's process set; missing where the one "
            "before came within the same cycle, and where the file tells less than two.",
        ),
        Column(
            "last_after_ns",
            "Int64",
            "ns",
            "How much later the last rank was ready than the one before.",
        ),
        Column("warmup", "bool", "", _WARMUP_DOC),
        _CLOCK_ERROR,
    ),
)

EXECUTIONS = Table(
    "executions",
    "One execution of one tensor, or of several that were fused: what to sum durations and bytes "
    "over. The parts are those of its first tensor; Horovod stamps the others microseconds apart.",
    (
        _PASS,
        _SEGMENT,
        _STEP,
        Column("fusion_id", "int64", "", "Number of the execution within its file, from 0."),
        _COLLECTIVE,
        Column("num_tensors", "int64", "", "Tensors in it."),
        Column(
            "size_bytes",
            "Int64",
            "bytes",
            "Payload of all tensors after compression; missing where that of one is unknown.",
        ),
        Column("start_ns", "int64", "ns", "Start on rank 0's monotonic clock."),
        Column(
            "dur_ns",
            "Int64",
            "ns",
            "From its first begin to its last end; missing where a tensor of it does not end.",
        ),
        Column("init_ns", "int64", "ns", "Time in `INIT_...`: buffers and communicators made."),
        Column("wait_ns", "int64", "ns", "Time in `WAIT_...`: data not computed yet (GPU)."),
        Column("queue_ns", "int64", "ns", "Time in `QUEUE`: earlier work on Horovod's stream."),
        Column(
            "copy_ns", "int64", "ns", "Time in `MEMCPY_...` and `ALLOCATE_...`: packing, buffers."
        ),
        Column(
            "transfer_ns",
            "int64",
            "ns",
            "Time in the activities of the communication library; includes waiting for ranks that "
            "entered late.",
        ),
        Column("warmup", "bool", "", _WARMUP_DOC),
        _CLOCK_ERROR,
    ),
)

INFERRED_STEPS = Table(
    "inferred_steps",
    "One step of training as a Horovod timeline shows it: a recurring set of reduced tensors. A "
    "guess; made only where no rank recorded steps.",
    (
        _PASS,
        _SEGMENT,
        Column("step", "int64", "", "Number of the step, from 0."),
        Column(
            "start_ns",
            "int64",
            "ns",
            "When its first gradient began to be negotiated, on rank 0's monotonic clock.",
        ),
        Column(
            "dur_ns",
            "Int64",
            "ns",
            "Time to the start of the next step; missing for the last.",
        ),
        Column(
            "communication_ns",
            "int64",
            "ns",
            "From its start to the end of its last reduction.",
        ),
        Column("num_tensors", "int64", "", "Tensors that were reduced."),
        Column(
            "size_bytes", "Int64", "bytes", "Bytes that were reduced; missing where one is unknown."
        ),
        Column("complete", "bool", "", "It holds the whole recurring set."),
        Column(
            "confidence",
            "float64",
            "ratio",
            "0 to 1, the same for all steps of a file: share of complete rounds, by the share of "
            "reductions in the set, by the share of rounds that begin after the longest pause.",
        ),
        _CLOCK_ERROR,
    ),
)
