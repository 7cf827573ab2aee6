"""Bytes of a tensor, from the dtype and shape that Horovod writes where an operation ends."""

import functools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.syntax.record_text import readable
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
