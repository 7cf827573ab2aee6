"""One row of a frame as pandas gives it."""

from collections.abc import Hashable, Mapping
from typing import Any

FrameRow = Mapping[Hashable, Any]
"""A row of ``DataFrame.to_dict("records")``: pandas knows the dtypes of its values, mypy not."""
