"""What the errors of earlier forecasts do to the bands of a new one, as a sentence.

Tested in ``tests/analyze/predict/test_past_influence.py``.
"""

import math
from collections.abc import Sequence

import numpy as np

from hvdprof import units

_LEAST_POINTS = 0.5


def past_influence(
    errors: Sequence[tuple[float, float]], changes: Sequence[float], num_ranks: int
) -> str:
    """How far off earlier forecasts were, and how much wider or narrower that makes the band.

    Args:
        errors: ``Question.past_errors``; not empty.
        changes: For each network, the width of the 90 % band of the efficiency minus what it is
            without these errors.
        num_ranks: The size of these bands.
    """
    off = float(np.median([abs(math.expm1(error)) for _, error in errors]))
    lead = (
        f"{units.counted(len(errors), 'earlier forecast')} of this folder "
        f"{'was' if len(errors) == 1 else 'were'} off by {units.percent(off)}"
    )
    lead += " in the median" if len(errors) > 1 else ""
    points = [100 * change for change in changes]
    largest = max(points, key=abs)
    band = f"the 90 % band on {units.count(num_ranks)} ranks"
    if abs(largest) < _LEAST_POINTS:
        return f"{lead}: {band} stays as wide."
    way = "wider" if largest > 0 else "narrower"
    most = "up to " if len(points) > 1 else ""
    return f"{lead}: {band} is {most}{abs(largest):.0f} points {way}."
