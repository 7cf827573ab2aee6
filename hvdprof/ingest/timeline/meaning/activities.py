"""The words of Horovod's timeline: collectives, activities, dtypes with shapes."""

import functools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.syntax.fields import readable
from hvdprof.model.arrays import Int32s, Int64s

_DTYPE_BYTES = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "uint16": 2,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
# Python refuses to convert thousands of digits.
_SHAPE = re.compile(r"\[\s*(\d{1,20}(?:\s*,\s*\d{1,20})*)?\s*\]")
_LARGEST = 2**62

UNKNOWN = -1
"""Stands for a size that the file does not say; missing in every table."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Bytes (``UNKNOWN`` where unknown) and dtype (empty where unknown) for each code of args.

    Both have one more row at the end for the code -1, which stands for no args at all.
    """

    size_bytes: Int64s
    dtype: Int32s
    dtypes: tuple[str, ...]


def payloads_of(args: Sequence[str]) -> Payloads:
    """What the args of ends say, each different one read once."""
    said = [_payload(text) for text in args]
    dtypes = tuple(dict.fromkeys(["", *(dtype for dtype, _ in said)]))
    codes = {dtype: code for code, dtype in enumerate(dtypes)}
    return Payloads(
        np.asarray([*(size for _, size in said), UNKNOWN], dtype=np.int64),
        np.asarray([*(codes[dtype] for dtype, _ in said), 0], dtype=np.int32),
        dtypes,
    )


@functools.lru_cache(maxsize=4096)
def _payload(text: str) -> tuple[str, int]:
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "", UNKNOWN
    if not isinstance(args, dict):
        return "", UNKNOWN
    dtype = args.get("dtype")
    dtype = readable(dtype) if isinstance(dtype, str) else ""
    shape = _SHAPE.fullmatch(str(args.get("shape")))
    width = _DTYPE_BYTES.get(dtype)
    if shape is None or width is None:
        return dtype, UNKNOWN
    edges = [int(edge) for edge in shape.group(1).split(",")] if shape.group(1) else []
    size = width * math.prod(edges)
    return dtype, size if size <= _LARGEST else UNKNOWN


NEGOTIATE = "NEGOTIATE_"

OPERATIONS = frozenset(
    {
        *("ALLREDUCE", "ALLGATHER", "BROADCAST", "REDUCESCATTER", "ADASUM", "ALLTOALL", "BARRIER"),
        *("JOIN", "ERROR"),
    }
)
"""Response types that Horovod 0.12 to 0.28.1 writes at the top level (message.cc)."""

FUSED = frozenset({"ALLREDUCE", "ADASUM", "ALLGATHER", "REDUCESCATTER"})
"""Only these are ever executed several at once (controller.cc, Controller::FuseResponses)."""

CACHED = frozenset({"ALLREDUCE", "ALLGATHER", "ALLTOALL"})
"""Kept by the response cache, so that ranks are named for the first use alone. ADASUM is cached
by name, but is looked up in vain since 0.26.0 (controller.cc, Controller::ConstructResponse)."""

NEVER_BEGUN = frozenset({"BARRIER", "JOIN"})
"""Horovod ends these without ever having begun them (operations.cc, PerformOperation)."""

REDUCTIONS = frozenset({"ALLREDUCE", "ADASUM", "REDUCESCATTER"})
"""What is done to gradients, once a step."""

INIT = "INIT_"
FUSION_BUFFER = "INIT_FUSION_BUFFER"

_ACTIVITIES = frozenset(
    {
        *("INIT_FUSION_BUFFER", "INIT_NCCL", "INIT_DDL", "WAIT_FOR_DATA"),
        *("WAIT_FOR_OTHER_TENSOR_DATA", "SCHEDULE", "QUEUE", "MEMCPY_IN_FUSION_BUFFER"),
        *("MEMCPY_OUT_FUSION_BUFFER", "MEMCPY_IN_HOST_BUFFER", "MEMCPY_OUT_HOST_BUFFER"),
        *("MEMCPY_IN_SHARED_BUFFER", "MEMCPY_OUT_SHARED_BUFFER", "ALLOCATE_OUTPUT"),
        *("ALLOCATE_SHARED_BUFFER", "COPY_ALLGATHER_OUTPUT", "MPI_CROSS_ALLGATHER"),
        *("MPI_ADASUM_ALLREDUCE",),
    }
)
_TRANSFERS = frozenset(
    {
        *("ALLREDUCE", "REDUCE", "ALLGATHER", "ALLGATHERV", "BCAST", "BROADCAST", "REDUCESCATTER"),
        *("ALLTOALL", "ALLTOALLV"),
    }
)
_BACKENDS = ("MPI", "GLOO", "NCCL", "CCL", "DDL", "MLSL")

# Gloo's alltoall is labelled as MPI's (gloo_operations.cc, GlooAlltoall).
_SHARED_LABELS = frozenset({"MPI_ALLTOALL"})

_PART_PREFIXES = {
    "INIT_": "init",
    "WAIT_": "wait",
    "QUEUE": "queue",
    "SCHEDULE": "queue",
    "MEMCPY_": "copy",
    "ALLOCATE_": "copy",
    "COPY_": "copy",
}

PARTS = ("init", "wait", "queue", "copy", "transfer")
"""What an activity of an execution is spent on."""


def is_known_activity(name: str) -> bool:
    """Whether Horovod 0.12 to 0.28.1 writes an activity of this name (common.h)."""
    backend, _, stage = name.partition("_")
    return name in _ACTIVITIES or (backend in _BACKENDS and stage in _TRANSFERS)


def part_of(name: str) -> str:
    """The one of ``PARTS`` that an activity counts for; unknown ones count as transfer."""
    for prefix, part in _PART_PREFIXES.items():
        if name.startswith(prefix):
            return part
    return "transfer"


def backends_of(activities: Iterable[str]) -> tuple[str, ...]:
    """The libraries that moved data, such as ``("MPI",)``; several in hierarchical operations."""
    names = set(activities)
    telling = names - _SHARED_LABELS or names
    found = {name.partition("_")[0] for name in telling if "_" in name}
    return tuple(backend for backend in _BACKENDS if backend in found)


def frameworks_of(tensors: Iterable[str]) -> tuple[str, ...]:
    """The frameworks whose way of naming tensors is found; empty where none is.

    PyTorch prefixes the operation (``allreduce.weight``), MXNet ``horovod_allreduce.``, and
    TensorFlow's names end in those of its own ops (``HorovodAllreduce_...``).
    """
    found = {_framework_of(name) for name in tensors} - {""}
    return tuple(sorted(found))


_TORCH_HEADS = frozenset({"allreduce", "allgather", "broadcast", "alltoall", "reducescatter"})
_MXNET_HEADS = frozenset(f"horovod_{head}" for head in _TORCH_HEADS)


def _framework_of(name: str) -> str:
    head = name.partition(".")[0]
    if head in _MXNET_HEADS:
        return "MXNet"
    if head.removeprefix("grouped_") in _TORCH_HEADS:
        return "PyTorch"
    if any(part in name for part in ("Horovod", "DistributedGradientTape", "_Allreduce/")):
        return "TensorFlow"
    return ""
