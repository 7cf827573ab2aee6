"""Types of numpy arrays, one name for each, and of a row of a frame.

Checked by mypy; used by the tests of ``tests/ingest/timeline/test_column_loops.py``.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int8s = npt.NDArray[np.int8]
Uint8s = npt.NDArray[np.uint8]
Uint64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[np.generic]
"""Of any type."""

Text = tuple[Uint8s, Uint64s]
"""Bytes, and the word of eight bytes from each of them on."""

FrameRow = Mapping[Hashable, Any]
"""A row of ``DataFrame.to_dict("records")``: pandas knows the dtypes of its values, mypy not."""


def group_codes(rows: pd.DataFrame, keys: Sequence[str]) -> tuple[Int64s, Int64s]:
    """The group of each row, numbered as they appear, and the first row of each group.

    Args:
        rows: Any rows; none may be without a key.
        keys: The columns that name a group.
    """
    codes = np.zeros(len(rows), dtype=np.int64)
    for key in keys:
        own, names = pd.factorize(rows[key].array)
        codes = codes * max(len(names), 1) + own
    own, distinct = pd.factorize(codes)
    first = np.full(len(distinct), len(rows), dtype=np.int64)
    np.minimum.at(first, own, np.arange(len(rows)))
    return own.astype(np.int64), first


def is_missing(value: object) -> bool:
    """Whether a value of a row is missing: None, NA or NaN."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
