"""Logarithmic axes whose ticks can be read."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_DECADES_WITHOUT_TICKS_BETWEEN = 1.5


def log_axis(values: ArrayLike, tickformat: str = "~g") -> dict[str, Any]:
    """Properties of a log axis for these values; of several decades they alone are named.

    Args:
        values: What the axis has to show; only positive ones count.
        tickformat: How ticks are written, as d3 names it.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[known > 0]
    decades = np.log10(known.max() / known.min()) if len(known) else 0.0
    dtick = 1 if decades >= _DECADES_WITHOUT_TICKS_BETWEEN else "D2"
    return {"type": "log", "tickformat": tickformat, "dtick": dtick}
