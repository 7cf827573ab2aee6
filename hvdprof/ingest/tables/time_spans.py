"""How far recordings that should be of one job are apart in time.

Tested in ``tests/ingest/flight_recorder/test_one_job.py``.
"""

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def widest_gap(spans: Mapping[Key, tuple[int, int]]) -> tuple[Key, Key, int]:
    """The span that ends first, the one that begins last, and the time between; below 0 if common.

    Args:
        spans: Begin and end of each recording; at least one.
    """
    latest = max(spans, key=lambda key: spans[key][0])
    earliest = min(spans, key=lambda key: spans[key][1])
    return earliest, latest, spans[latest][0] - spans[earliest][1]
