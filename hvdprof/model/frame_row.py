"""One row of a frame as pandas gives it."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

FrameRow = Mapping[Hashable, Any]
"""A row of ``DataFrame.to_dict("records")``: pandas knows the dtypes of its values, mypy not."""


def is_missing(value: object) -> bool:
    """Whether a value of a row is missing: None, NA or NaN."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
