"""Logarithmic axes with legible ticks."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DECADES_WITHOUT_TICKS_BETWEEN = 1.5
_FEWEST_TICKS = 2


def log_axis(values: ArrayLike, tickformat: str = "~g") -> dict[str, Any]:
    """Properties of a log axis for these values.

    Over several decades, only the decades have ticks, over fewer 1, 2 and 5; with less than two of
    these among the values, plotly chooses.

    Args:
        values: Values on the axis; only positive ones are used.
        tickformat: Format of the ticks, as in d3.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[known > 0]
    decades = np.log10(known.max() / known.min()) if len(known) else 0.0
    axis = {"type": "log", "tickformat": tickformat}
    if decades >= _DECADES_WITHOUT_TICKS_BETWEEN:
        return axis | {"dtick": 1}
    return axis | {"dtick": "D2"} if _num_ticks(known) >= _FEWEST_TICKS else axis


def _num_ticks(values: NDArray[np.float64]) -> int:
    """Number of 1, 2 and 5 times a power of ten within the range of the values."""
    if not len(values):
        return 0
    powers = 10.0 ** np.arange(np.floor(np.log10(values.min())), np.log10(values.max()) + 1)
    ticks = np.outer(powers, (1, 2, 5))
    return int(((ticks >= values.min()) & (ticks <= values.max())).sum())
