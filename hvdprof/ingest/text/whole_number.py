"""Numbers out of files that may hold anything.

Tested in ``tests/ingest/recorder`` and ``tests/ingest/timeline``.
"""

import math

_LARGEST = 2**62


def whole(value: object) -> int:
    """A whole number that fits a column of 64 bits, with room for a sum of two.

    Raises:
        ValueError: It is something else.
    """
    # Of a bool the type is another one.
    if type(value) is not int or not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{value!r} is not a whole number of 63 bits")
    return value


def bounded(value: object) -> float:
    """A number within the same bounds; NaN for None.

    Raises:
        ValueError: It is something else.
    """
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise ValueError(f"{value!r} is no number of 63 bits")
    return float(value)
