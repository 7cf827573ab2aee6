"""The turns of a resident launch as files hold them, one line per turn, written by the launcher.

Tested by tests/launch/turns/test_resident_launches.py.
"""

from typing import TypedDict

TURNS_FILE = "turns.jsonl"


class TurnLine(TypedDict):
    """A turn: steps of one segment that ran while the other launches were stopped.

    ``round`` counts the turns of all launches from 0; launches with the same round ran one after
    the other. ``first_step`` is the recorded number of its first measured step. ``other_cores`` is
    the number of cores that processes outside the launch kept busy, ``steal_share`` the share of
    processor time that the hypervisor took; both None where unknown.
    """

    segment: str
    round: int
    first_step: int
    num_steps: int
    monotonic_ns: int
    dur_ns: int
    other_cores: float | None
    steal_share: float | None
