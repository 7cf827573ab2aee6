"""Ranks of a resident launch that do not stop at the same step, so that it cannot take turns."""

import time

APART_S = 30.0
"""Ranks that wait for others at a boundary for longer do not stop at the same step.

Half the time after which a stall is reported where that is shorter: the ranks that do not stop wait
in a collective for those at the boundary, which is no stall of the script.
"""

LEAST_APART_S = 2.0
"""Ranks that stop at the same step arrive within this time, however early stalls are reported."""


def resident_warn_s(warn_s: float) -> float:
    """Seconds after which a stall of a launch that takes turns is reported, 0 for never.

    At least the time in which ranks turn out not to stop together: some then wait for others.

    Args:
        warn_s: Seconds that the user asked for, 0 for never.
    """
    return max(warn_s, 2 * LEAST_APART_S) if warn_s else 0.0


class ApartWatch:
    """Watches for how long a part of the ranks has waited for the others at a boundary.

    Args:
        warn_s: Seconds after which a stall is reported, 0 for never.
    """

    def __init__(self, warn_s: float) -> None:
        self._longest_s = min(APART_S, resident_warn_s(warn_s) / 2 or APART_S)
        self._since_s: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether ranks wait for others now."""
        return self._since_s is not None

    def end(self) -> None:
        """All ranks stand together."""
        self._since_s = None

    def is_over(self, num_waiting: int) -> bool:
        """Look once more; whether they have waited for too long."""
        if not num_waiting:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = time.monotonic()
        return self._since_s is not None and time.monotonic() - self._since_s > self._longest_s
