"""Clocks skewed on purpose: an offset and a drift of what a rank's recorder reads."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

KIND = "clock"
KEYS = ("rank", "offset", "drift")
MAX_OFFSET_S = 3600.0
MAX_DRIFT_PPM = 10_000.0

Clock = Callable[[], int]

_OFFSET = re.compile(r"(-?\d+(?:\.\d+)?)(us|ms|s)")
_DRIFT = re.compile(r"(-?\d+(?:\.\d+)?)ppm")
_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """A clock that is ``offset_ns`` ahead and gains ``drift_ppm`` microseconds per second.

    ``ranks`` is empty for all. Only the recorder's readings are skewed, not the host's clock.
    """

    text: str
    offset_ns: float
    drift_ppm: float
    ranks: tuple[int, ...] = ()


def offset_of(value: str) -> float | None:
    """Nanoseconds of ``5ms``, ``-200us``, ``1.5s``; None where it is no such length."""
    match = _OFFSET.fullmatch(value)
    if match is None:
        return None
    offset_ns = float(match[1]) * _NS[match[2]]
    return offset_ns if abs(offset_ns) <= MAX_OFFSET_S * 1e9 else None


def drift_of(value: str) -> float | None:
    """The number of ``20ppm``; None where it is none."""
    match = _DRIFT.fullmatch(value)
    if match is None:
        return None
    return float(match[1]) if abs(float(match[1])) <= MAX_DRIFT_PPM else None


def clock_of(faults: Sequence[ClockFault], rank: int) -> Clock:
    """The monotonic clock of a rank, ns, with the faults that name it."""
    own = [fault for fault in faults if not fault.ranks or rank in fault.ranks]
    if not own:
        return time.monotonic_ns
    offset = sum(fault.offset_ns for fault in own)
    rate = 1 + sum(fault.drift_ppm for fault in own) * 1e-6
    begin = time.monotonic_ns()

    def skewed() -> int:
        return begin + round(offset + (time.monotonic_ns() - begin) * rate)

    return skewed
