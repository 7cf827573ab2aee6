"""Options that are numbers: what is too small to be used is told before anything starts."""

import math
from collections.abc import Iterable

from hvdprof.errors import UsageError


def check_at_least(lowest: Iterable[tuple[str, float | None, float]]) -> None:
    """Check options that are numbers: each with what was given and the least that can be used.

    Raises:
        UsageError: One is less, or no number; those that were not given are left out.
    """
    for option, value, low in lowest:
        if value is not None and not low <= value < math.inf:
            raise UsageError(f"{option} {value:g}: must be a number of at least {low:g}.")


def check_stall_limits(warn_s: float, kill_s: float | None) -> None:
    """Check that a stall is told before it ends the launch.

    Raises:
        UsageError: It would not be, or the seconds are none.
    """
    check_at_least((("--stall-warn", warn_s, 0), ("--stall-kill", kill_s, 1)))
    if kill_s is not None and not 0 < warn_s <= kill_s:
        raise UsageError(
            f"--stall-kill {kill_s:g} is not after --stall-warn {warn_s:g}.",
            hint="A stall is seen first and ended later.",
        )
