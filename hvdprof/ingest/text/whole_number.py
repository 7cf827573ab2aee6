"""Whole numbers out of files that may hold anything.

Tested in ``tests/ingest/recorder`` and ``tests/ingest/timeline``.
"""

_LARGEST = 2**62


def whole(value: object) -> int:
    """A whole number that fits a column of 64 bits, with room for a sum of two.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise ValueError(f"{value!r} is not a whole number of 63 bits")
    return value
