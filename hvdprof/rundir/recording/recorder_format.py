"""The lines of a recorder file: kinds, keys, units and the version of the format, declared once.

A file has one JSON object per line. ``kind`` is the first key of every line. The recorder writes
these lines, ``ingest.recorder`` reads them, ``launch.diagnose.rank_progress`` follows them while
they grow (all through ``recorder_codec``). docs/reference/recorder_lines.md is generated from them.

History of the schema:
    1   first version; `window` lines were added without a new number
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from hvdprof.rundir.recording.line_format import (
    CallLine,
    Key,
    SampledLine,
    SamplingLine,
    WindowLine,
)
from hvdprof.rundir.recording.sample_format import HostFacts, SamplesLine

RECORDER_SCHEMA_VERSION = 1

NOT_READY = -1
"""In place of the offset of a gradient that was not produced in a step."""

TCP, SAME_CLOCK = "tcp", "same-clock"
"""How a clock was compared with rank 0's; processes of one boot of a host share the clock."""

FINISHED, HOSTS_UPDATED, LOST_PEER, RAISED = "finished", "hosts-updated", "lost-peer", "raised"
"""Why a session of an elastic job ended on a rank."""

GRAD_REDUCE, USER = "grad_reduce", "user"
UNSHARD_FORWARD, UNSHARD_BACKWARD = "unshard_forward", "unshard_backward"
REDUCE_SCATTER = "reduce_scatter"
WAIT_KINDS = (GRAD_REDUCE, UNSHARD_FORWARD, UNSHARD_BACKWARD, REDUCE_SCATTER, USER)
"""What a rank waits for: reduced gradients (Horovod, DDP); the parameters of a group of FSDP2 in
forward or backward, its reduce-scatter; a collective that the script calls itself."""

NOT_SUBMITTED = -1
"""In place of the offset at which a rank submitted a collective, where it is unknown."""


Phase = tuple[str, int, int]
"""Name, offset from the begin of the step and length, ns."""

Interval = tuple[int, int]
"""Offset from the begin of the step and length, ns."""

Wait = tuple[str, int, int]
"""Kind of a wait, offset at which the rank submitted the collective, ranks that all wait there."""

Bucket = tuple[int, int, Sequence[int]]
"""Offset at which DDP submitted a bucket, length until it was reduced, places of its tensors."""


class Versions(TypedDict):
    """Versions of what trains; None where it is not installed."""

    python: str
    torch: str | None
    horovod: str | None
    tensorflow: NotRequired[str | None]


class GradientTotals(TypedDict):
    """All gradients of a segment together."""

    num_tensors: int
    size_bytes: int
    sent_bytes: int


class Tensor(TypedDict):
    """A gradient: its name as the engine knows it, its size, and what a rank submits of it."""

    name: str
    size_bytes: int
    sent_bytes: int


class HeaderLine(TypedDict):
    """The first line: which process this is and where it runs."""

    kind: Literal["header"]
    schema_version: Annotated[int, Key("version of this format")]
    rank: Annotated[int, Key("as `hvd.rank()`")]
    size: Annotated[int, Key("as `hvd.size()`")]
    local_rank: Annotated[int, Key("as `hvd.local_rank()`")]
    local_size: Annotated[int, Key("as `hvd.local_size()`")]
    pid: Annotated[int, Key("process id")]
    pid_namespace: Annotated[NotRequired[str], Key("the namespace in which `pid` is one")]
    wall_ns: Annotated[int, Key("the host's wall clock, read together with `monotonic_ns`", "ns")]
    monotonic_ns: Annotated[int, Key("the host's monotonic clock", "ns")]
    device: Annotated[str, Key("where the model computes: `cpu`, `cuda:0`")]
    affinity: Annotated[list[int], Key("cores that the process may use")]
    given_cores: Annotated[list[int], Key("cores before the script pinned itself")]
    num_gpus: Annotated[int | None, Key("GPUs that torch sees; `null` without a GPU")]
    gpu: Annotated[NotRequired[str], Key("UUID of the GPU of `device`, where torch states it")]
    backend: Annotated[
        NotRequired[str], Key("what reduces tensors on the GPU, where known: `nccl`, `gloo`, `mpi`")
    ]
    num_threads: Annotated[int | None, Key("threads of torch or TensorFlow; `null` where unknown")]
    versions: Annotated[
        Versions, Key("`python`, `torch`, `horovod`, and `tensorflow` where the script imported it")
    ]
    host: Annotated[
        HostFacts, Key("name, cores, memory, network interfaces and GPUs (`HostFacts`)")
    ]
    engine: Annotated[
        NotRequired[str],
        Key(
            "where no Horovod connects the ranks: `ddp`, `fsdp` or `collectives` of "
            "`torch.distributed`, or the strategy of `tf.distribute`, such as `tf-multiworker`"
        ),
    ]


class ClockLine(TypedDict):
    """A comparison of the rank's clock with rank 0's."""

    kind: Literal["clock"]
    when: Annotated[str, Key("`start` or `end` of the recording")]
    method: Annotated[str, Key("`same-clock` or `tcp`")]
    monotonic_ns: Annotated[int, Key("time of the comparison", "ns")]
    offset_ns: Annotated[int, Key("rank 0's clock minus this one", "ns")]
    error_ns: Annotated[int, Key("half of the shortest round trip: bound of the error", "ns")]
    min_rtt_ns: Annotated[int, Key("shortest round trip", "ns")]
    num_exchanges: Annotated[int, Key("number of round trips")]


class SegmentLine(TypedDict):
    """The first step of a segment begins."""

    kind: Literal["segment"]
    id: Annotated[str, Key("as in the plan; `main` for steps outside any segment")]
    monotonic_ns: Annotated[int, Key("begin of the segment, before its first step", "ns")]
    tensors: Annotated[
        Sequence[Tensor],
        Key("`name` as the engine knows it, `size_bytes`, `sent_bytes` after compression", "bytes"),
    ]
    totals: Annotated[
        NotRequired[GradientTotals],
        Key(
            "only in a light recording, in place of `tensors`: `num_tensors`, `size_bytes`, "
            "`sent_bytes` of all gradients",
            "bytes",
        ),
    ]
    process_time_ns: Annotated[
        NotRequired[int], Key("processor time of the process and its workers so far", "ns")
    ]


class StepLine(TypedDict):
    """A step that ran to its end."""

    kind: Literal["step"]
    segment: Annotated[str, Key("id of the segment")]
    step: Annotated[int, Key("number in the segment, from 0, warm-up included")]
    warmup: Annotated[bool, Key("whether results exclude the step")]
    start_ns: Annotated[int, Key("begin of the step", "ns")]
    dur_ns: Annotated[int, Key("length of the step", "ns")]
    samples: Annotated[int, Key("samples that this rank trained on")]
    phases: Annotated[
        Sequence[Phase], Key("pieces of phases: [name, offset from `start_ns`, length]", "ns")
    ]
    ready: Annotated[
        Sequence[int],
        Key(
            "per tensor of the segment the offset of its gradient, -1 for one that is missing", "ns"
        ),
    ]
    blocked: Annotated[
        Sequence[Interval] | None,
        Key("[offset, length] of waits for other ranks; `null` where a wait may be unseen", "ns"),
    ]
    waits: Annotated[
        NotRequired[Sequence[Wait]],
        Key(
            "per interval of `blocked` [kind, offset at which the rank submitted the "
            "collective, ranks that all wait for each other there]. Kinds: `grad_reduce`, "
            "`unshard_forward`, `unshard_backward`, `reduce_scatter`, `user`; offset -1 where "
            "unknown, ranks 0 where unknown or where some do not wait. Absent where every "
            "wait is a `grad_reduce`",
            "ns",
        ),
    ]
    buckets: Annotated[
        NotRequired[Sequence[Bucket]],
        Key(
            "only with `bucket_hook`: [offset at which DDP submitted a bucket, length until it "
            "was reduced, places of its tensors]",
            "ns",
        ),
    ]
    evaluation: Annotated[
        NotRequired[bool],
        Key(
            "only where true: the rank also evaluated in the step, in its pieces `evaluation`; "
            "results exclude the steps in which all ranks did"
        ),
    ]
    evaluation_blocked_ns: Annotated[
        NotRequired[int],
        Key(
            "only with `evaluation`, where no wait may be unseen: waits for other ranks until "
            "the end of the last piece `evaluation`, which are not in `blocked`",
            "ns",
        ),
    ]
    profiled: Annotated[
        NotRequired[bool],
        Key(
            "only where true: torch.profiler was on, or started or stopped; results exclude "
            "the step of all ranks"
        ),
    ]
    loss: Annotated[
        NotRequired[float], Key("training loss, only where given; may be `NaN`, `Infinity`")
    ]


class EvaluationLine(TypedDict):
    """The rank evaluated after the last step of a segment."""

    kind: Literal["evaluation"]
    segment: Annotated[str, Key("id of the segment")]
    step: Annotated[int, Key("number of the last step, plus 1")]
    start_ns: Annotated[int, Key("end of the last step", "ns")]
    dur_ns: Annotated[int, Key("length until the end of the last forward pass", "ns")]
    rest_ns: Annotated[int, Key("time from there to the end of the last wait, 0 without one", "ns")]
    blocked_ns: Annotated[
        int | None, Key("waits for other ranks in `dur_ns`; `null` where one may be unseen", "ns")
    ]
    rest_blocked_ns: Annotated[int | None, Key("waits in `rest_ns`, likewise", "ns")]


class MarkLine(TypedDict):
    """A moment that the script named."""

    kind: Literal["mark"]
    name: Annotated[str, Key("its name")]
    monotonic_ns: Annotated[int, Key("its time", "ns")]


class TimelineLine(TypedDict):
    """Horovod's timeline was started or stopped."""

    kind: Literal["timeline"]
    action: Annotated[str, Key("`start` (time before the call) or `stop` (time after it)")]
    file: Annotated[str, Key("path relative to the pass folder")]
    monotonic_ns: Annotated[int, Key("time of the call", "ns")]
    wall_ns: Annotated[int, Key("wall clock, read together with `monotonic_ns`", "ns")]


class SegmentEndLine(TypedDict):
    """A segment ran to its end."""

    kind: Literal["segment_end"]
    id: Annotated[str, Key("as in the `segment` line")]
    monotonic_ns: Annotated[int, Key("end of the segment", "ns")]
    process_time_ns: Annotated[
        NotRequired[int], Key("processor time of the process and its workers so far", "ns")
    ]
    sent_bytes: Annotated[
        NotRequired[Sequence[int]],
        Key(
            "per tensor, only where it differs from the `segment` line (a compression of the "
            "script's own); replaces it. One number for all where that has `totals`",
            "bytes",
        ),
    ]


class SessionLine(TypedDict):
    """A session of an elastic job began on this rank."""

    kind: Literal["session"]
    number: Annotated[int, Key("number of the session")]
    host: Annotated[str, Key("host as the launcher names it")]
    slot: Annotated[int, Key("slot of the host as the launcher names it")]
    launch_rank: Annotated[int, Key("rank that the process was started with, -1 where unknown")]
    started_ns: Annotated[int, Key("begin of the process", "ns")]
    left_ns: Annotated[int | None, Key("end of the session before; `null` in a new process", "ns")]
    shut_down_ns: Annotated[int | None, Key("end of Horovod's shutdown; `null` likewise", "ns")]
    initialised_ns: Annotated[int | None, Key("end of Horovod's initialisation", "ns")]
    entered_ns: Annotated[int, Key("call of the script's function", "ns")]


class SessionEndLine(TypedDict):
    """A session ended on this rank; absent where the rank was killed."""

    kind: Literal["session_end"]
    why: Annotated[str, Key("`finished`, `hosts-updated`, `lost-peer` or `raised`")]
    monotonic_ns: Annotated[int, Key("end of the session", "ns")]
    num_steps: Annotated[int, Key("updates of the session")]
    num_committed: Annotated[int, Key("updates up to the last commit")]


INJECTED = "faults were injected on purpose: "
"""How the message of a problem begins that holds the plan of injected faults."""


class ProblemLine(TypedDict):
    """The recorder met a failure; the training continued."""

    kind: Literal["problem"]
    message: Annotated[str, Key("what failed")]
    about: Annotated[
        NotRequired[Literal["timeline"]], Key("`timeline`: Horovod's was to begin and did not")
    ]


class EndLine(TypedDict):
    """The recording is complete; absent where the rank did not end on its own."""

    kind: Literal["end"]
    monotonic_ns: Annotated[int, Key("end of the recording", "ns")]


RecorderLine = (
    HeaderLine
    | ClockLine
    | SegmentLine
    | StepLine
    | WindowLine
    | EvaluationLine
    | MarkLine
    | TimelineLine
    | SegmentEndLine
    | SessionLine
    | SessionEndLine
    | ProblemLine
    | EndLine
    | SamplingLine
    | SampledLine
    | CallLine
    | SamplesLine
)
