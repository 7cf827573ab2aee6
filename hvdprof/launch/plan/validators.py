"""Checks of single options; a mistake becomes one message before anything starts.

Tested in ``tests/launch/plan/test_options.py``.
"""

import math
from collections.abc import Iterable

from hvdprof.errors import UsageError


def check_number(flag: str, value: float | None, lowest: float, highest: float = math.inf) -> None:
    """Check a number.

    Args:
        flag: What the message names.
        value: The number; None where it was not given.
        lowest: The least number that can be used.
        highest: The largest number that can be used; infinity cannot.

    Raises:
        UsageError: The number is out of bounds, infinite or NaN.
    """
    if value is None or (lowest <= value <= highest and value < math.inf):
        return
    bounds = f"at least {lowest:g}" if highest == math.inf else f"{lowest:g} to {highest:g}"
    raise UsageError(f"{flag} {value:g}: must be a number of {bounds}.")


def check_known(flag: str, text: str, known: Iterable[str]) -> None:
    """Check a text that can only be one of some.

    Raises:
        UsageError: The text is none of them.
    """
    names = tuple(known)
    if text not in names:
        raise UsageError(f"{flag} {text}: not known.", hint=f"Known: {', '.join(names)}")


def check_stall_limits(warn_s: float, kill_s: float | None) -> None:
    """Check that a stall is reported before it ends the launch.

    Raises:
        UsageError: The launch would end first, or a number of seconds cannot be used.
    """
    check_number("--stall-warn", warn_s, 0)
    check_number("--stall-kill", kill_s, 1)
    if kill_s is not None and not 0 < warn_s <= kill_s:
        raise UsageError(
            f"--stall-kill {kill_s:g} is not after --stall-warn {warn_s:g}.",
            hint="A stall is reported first and ends the launch later.",
        )
