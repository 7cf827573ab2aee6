"""What a key of a line of a recorder file holds.

Tested by tests/rundir/test_recorder_format.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """What a key holds; ``unit`` is empty for names, numbers and flags."""

    doc: str
    unit: str = ""
