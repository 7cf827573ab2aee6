"""Checks of single options; a mistake becomes one message before anything starts.

Tested in ``tests/launch/plan/test_options.py``.
"""

import math
import re
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


_DURATION = re.compile(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?")
_SECONDS = (3600.0, 60.0, 1.0)


def parse_duration(flag: str, given: str | float) -> float:
    """The seconds of ``90``, ``90s``, ``5m`` or ``1h30m``.

    Raises:
        UsageError: It is no duration, or not above 0.
    """
    found = _DURATION.fullmatch(f"{given}".replace(" ", ""))
    try:
        parts = zip(found.groups(), _SECONDS, strict=True) if found else ()
        seconds = sum(float(part) * unit for part, unit in parts if part)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"{flag} {given}: not a duration.", hint=f"{flag} 5m, 90s or 1h30m")
    return seconds


def parse_precision(flag: str, given: str | float) -> float:
    """The share 0..1 of ``3%`` or ``0.03``.

    Raises:
        UsageError: It is no share above 0 and below 1.
    """
    share = _share(given)
    if not 0 < share < 1:
        raise UsageError(f"{flag} {given}: not a precision.", hint=f"{flag} 3% or 0.03")
    return share


def parse_target(flag: str, given: str | float) -> float:
    """The efficiency 0..1 of ``80%`` or ``0.8``.

    Raises:
        UsageError: It is no efficiency above 0 and at most 100 %.
    """
    share = _share(given)
    if not 0 < share <= 1:
        raise UsageError(
            f"{flag} {given}: must be an efficiency above 0 and at most 100 %.",
            hint=f"{flag} 80% or 0.8",
        )
    return share


def _share(given: str | float) -> float:
    text = f"{given}".strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return math.nan
    return number / 100 if text.endswith("%") else number
