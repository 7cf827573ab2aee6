"""Tables that answer at once which tensors cost most and what communication costs per step.

Tested in ``tests/analyze/communication/test_tensor_sums.py``.
"""

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
