"""Times on the axis of a timeline as texts: a pass can last for hours, an event for nanoseconds."""

from hvdprof import units

_IN_SECONDS_NS = 10_000_000_000


def length_text(length_ns: float) -> str:
    """A length in the unit that fits, ``'26.7 µs'``, ``'36.9 ms'``, ``'12.3 s'``."""
    if abs(length_ns) < _IN_SECONDS_NS:
        return units.milliseconds(length_ns)
    return f"{length_ns / 1e9:,.1f} s"


def place_text(time_ns: int) -> str:
    """A time since the start of the pass to the microsecond, ``'36.912 ms'``, ``'12.345678 s'``."""
    if abs(time_ns) < _IN_SECONDS_NS:
        return f"{time_ns / 1e6:,.3f} ms"
    return f"{time_ns / 1e9:,.6f} s"
