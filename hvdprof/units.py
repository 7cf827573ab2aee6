"""Numbers to text with their unit: the only place that formats a number for a reader."""

import math
from collections.abc import Callable
from datetime import UTC, datetime

MISSING = "-"
UNBOUNDED = "(CI unbounded: too noisy)"
UNKNOWN = "not known (too noisy)"

_WHOLE = 1.0
"""100 points: a band of predictions wider than that and than its value says nothing about it."""

_WIDEST = 3.0
"""The same for a measured interval, whose ends noise moves below 0 and above 100 %."""

_LARGEST_FACTOR = 1000.0
"""The same for a rate, as a multiple of its value."""

_LONGEST_NS = 1e10
"""From here on, a duration is in seconds."""


def percent(ratio: float, digits: int = 1) -> str:
    """A ratio 0..1 as percent text, ``0.612 -> '61.2 %'``; ``'-'`` for NaN."""
    return MISSING if math.isnan(ratio) else f"{100 * ratio:.{digits}f} %"


def percent_within(ratio: float, low: float, high: float) -> str:
    """A ratio as percent with no more digits than its interval supports, without the interval."""
    half = 100 * (high - low) / 2
    return percent(ratio, 1 if math.isnan(half) else _decimals_of_percent(half))


def says_nothing(ratio: float, low: float, high: float, *, widest: float = _WHOLE) -> bool:
    """Whether an interval of a ratio is wider than the ratio, and than all that is possible."""
    # An open lower end is as far away as the upper one.
    width = 2 * (high - ratio) if math.isnan(low) else high - low
    return width > max(widest, abs(ratio))


def percent_interval(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval as percent text.

    ``'61.2 ± 0.8 %'`` where the interval is near symmetric, ``'61.2 % (58.0 to 66.1)'`` where it
    is not, and ``'61.2 %'`` where there is no interval. Whole numbers where the interval has no
    more digits: ``'66 ± 13 %'``. ``UNKNOWN`` where the interval says nothing.
    """
    if math.isnan(low) or math.isnan(high) or math.isnan(ratio):
        return percent(ratio)
    if says_nothing(ratio, low, high, widest=_WIDEST):
        return UNKNOWN
    if _is_even(ratio - low, high - ratio, smallest=0.001):
        half = 100 * (high - low) / 2
        digits = _decimals_of_percent(half)
        return f"{100 * ratio:.{digits}f} ± {half:.{digits}f} %"
    digits = _decimals_of_percent(100 * _nearer_end(ratio, low, high))
    return f"{100 * ratio:.{digits}f} % ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def percent_band(middle: float, low: float, high: float) -> str:
    """A median with its 90 % band: ``'72 % (90 % band 55 to 84)'``.

    ``'(90 % band 84 or less)'`` where the lower end is not known, ``'not known (90 % band 1 to
    3053)'`` where the band says nothing. Whole numbers where the band is wider than 20 points,
    else one decimal.
    """
    if math.isnan(high):
        return percent(middle)
    digits = 0 if math.isnan(low) or high - low >= 0.2 else 1
    ends = f"{100 * high:.{digits}f}"
    ends = f"{ends} or less" if math.isnan(low) else f"{100 * low:.{digits}f} to {ends}"
    shown = "not known" if says_nothing(middle, low, high) else percent(middle, digits)
    return f"{shown} (90 % band {ends})"


def fraction_interval(fraction: float, low: float, high: float) -> str:
    """A small share 0..1 with its interval: ``'2.3 % (1.8 to 2.9)'``, ``'2.31 %'`` without.

    Below 1 % there are two digits in any case. A lower end below 0 becomes 0.
    """
    if math.isnan(low) or math.isnan(high) or math.isnan(fraction):
        return percent(fraction, 2)
    digits = 2 if high < 0.01 else 1
    lower, upper = 100 * max(low, 0.0), 100 * high
    return f"{percent(fraction, digits)} ({lower:.{digits}f} to {upper:.{digits}f})"


def points(ratio: float, low: float = math.nan, high: float = math.nan) -> str:
    """A signed difference of ratios as percentage points, ``-0.021 -> '-2.1 points'``.

    Whole points where its interval has no more digits, as in ``percent_interval``. What rounds to
    zero is ``'+0.0 points'``: a minus would claim a gain.
    """
    if math.isnan(ratio):
        return MISSING
    half = 100 * (high - low) / 2
    digits = 1 if math.isnan(half) else _decimals_of_percent(half)
    return f"{100 * ratio:+z.{digits}f} points"


def milliseconds(duration_ns: float, digits: int = 3) -> str:
    """Nanoseconds as milliseconds with three significant digits, ``'12.3 ms'``, or ``digits``.

    Less than 1 ms is in microseconds, ``'26.7 µs'``, and less than 1 µs in whole nanoseconds. Less
    than half a nanosecond is a rounding error and becomes 0. From 10 s on it is in seconds and
    minutes.
    """
    if math.isnan(duration_ns):
        return MISSING
    size = abs(duration_ns)
    if size < 0.5:
        return "0 ms"
    if size < _ROUNDED_TO_NEXT * 1e3:
        return f"{duration_ns:.0f} ns"
    if size < _ROUNDED_TO_NEXT * 1e6:
        return f"{_significant(duration_ns / 1e3, digits)} µs"
    if size >= _LONGEST_NS:
        return ("-" if duration_ns < 0 else "") + seconds(size / 1e9)
    return f"{_significant(duration_ns / 1e6, digits)} ms"


def milliseconds_within(duration_ns: float, low_ns: float, high_ns: float) -> str:
    """A duration with no more digits than its interval supports, ``'41 ms'`` of 41.3 (12 to 70).

    The last digit is the second one of the half width. Three digits where the interval is unknown.
    """
    half = (high_ns - low_ns) / 2
    if not 0 < half < math.inf or not duration_ns:
        return milliseconds(duration_ns)
    last = math.floor(math.log10(half)) - 1
    digits = math.floor(math.log10(abs(duration_ns))) - last + 1
    return milliseconds(duration_ns, min(max(digits, 1), 3))


def seconds(duration_s: float, *, whole: bool = False) -> str:
    """Seconds as ``'4.24 s'`` (``'4 s'`` if whole), and as ``'3 min 12 s'`` from 100 s on."""
    if math.isnan(duration_s):
        return MISSING
    if duration_s < 100:
        return f"{duration_s:.0f} s" if whole else f"{_three_digits(duration_s)} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest:02d} s"


def duration(duration_s: float) -> str:
    """A planned time in whole units, ``'45 s'``, ``'1 min 30 s'``, ``'5 min'`` or ``'4 h'``."""
    if math.isnan(duration_s):
        return MISSING
    whole = round(duration_s)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s"))
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2]) if shown else "0 s"


def moment(time_ns: float) -> str:
    """Nanoseconds since 1970 as date and time; of a log that prints no date the time alone."""
    if math.isnan(time_ns):
        return MISSING
    shown = datetime.fromtimestamp(time_ns // 1e9, UTC)
    return shown.strftime("%H:%M:%S" if shown.year == 1970 else "%Y-%m-%d %H:%M:%S")


def two_digit_percent(ratio: float) -> str:
    """A half width as percent with two digits: ``0.0423 -> '4.2 %'``, ``0.127 -> '13 %'``."""
    return MISSING if math.isnan(ratio) else f"{_two_digits(100 * ratio)} %"


def percent_limit(ratio: float) -> str:
    """A ratio that was asked for, with the digits that it was given with: ``0.03 -> '3 %'``."""
    return f"{100 * ratio:.4g} %"


def rate(per_second: float) -> str:
    """A rate with at least three digits and no unit, ``1234.5 -> '1,234'``."""
    return MISSING if math.isnan(per_second) else _three_digits(per_second)


def rate_interval(per_second: float, low: float, high: float) -> str:
    """A rate with its interval: ``'1,234 ± 40'``, or ``'9,500 (2,600 to 34,800)'`` where lopsided.

    A wide interval of a positive quantity is lopsided, and a symmetric one would reach below zero.
    Where one end alone is known: ``'24.1 (15.2 or more)'``.
    """
    if math.isnan(per_second):
        return MISSING
    if math.isnan(low) or math.isnan(high):
        return rate(per_second) + _open_ends(low, high, rate)
    if not high < _LARGEST_FACTOR * abs(per_second) and per_second:
        return f"{rate(per_second)} {UNBOUNDED}"
    if _is_even(per_second - low, high - per_second, smallest=0.01 * abs(per_second)):
        half = (high - low) / 2
        place = _place_of(half)
        text = rate(_to_place(per_second, place))
        decimals = len(text.partition(".")[2])
        if not half:
            return f"{text} ± 0"
        # At least one unit of the last digit: "264 ± 0.85" has two precisions.
        shown = max(_to_place(half, place), 10.0**-decimals)
        return f"{text} ± {shown:,.{decimals}f}"
    place = _place_of(_nearer_end(per_second, low, high))
    value, below, above = (rate(_to_place(number, place)) for number in (per_second, low, high))
    return f"{value} ({below} to {above})"


def money(amount: float) -> str:
    """An amount with cents, ``1234.5 -> '1,234.50'``; below 1 with two digits, ``'0.0042'``."""
    return f"{amount:,.2f}" if abs(amount) >= 1 else _two_digits(amount)


def flops(number: float, low: float = math.nan, high: float = math.nan, *, per: str = "") -> str:
    """FLOPs, or FLOPs ``per`` something, with a prefix, ``(4.12e14, per="/s") -> '412 TFLOP/s'``.

    With the ends of an interval as ``rate_interval`` shows them.
    """
    if math.isnan(number):
        return MISSING
    prefixes = {1e15: "P", 1e12: "T", 1e9: "G", 1e6: "M"}
    scale = next((one for one in prefixes if number >= one), 1e6)
    return f"{rate_interval(number / scale, low / scale, high / scale)} {prefixes[scale]}FLOP{per}"


def byte_size(size_bytes: float) -> str:
    """Bytes in decimal units as the field prints them, ``44_700_000 -> '44.7 MB'``."""
    if math.isnan(size_bytes):
        return MISSING
    value, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value)} {unit}"


def count(number: float) -> str:
    """A whole number with thousands separators, ``21840 -> '21,840'``."""
    return MISSING if math.isnan(number) else f"{round(number):,}"


def counted(number: int, noun: str) -> str:
    """A number with its noun, ``(1, 'row') -> '1 row'``, ``(2, 'launch') -> '2 launches'``."""
    is_hissed = noun.endswith(("ch", "sh", "s", "x")) and not noun.endswith("epoch")
    plural = "es" if is_hissed else "s"
    return f"{count(number)} {noun}{'' if number == 1 else plural}"


def of_unit(value: float, unit: str) -> str:
    """A number in one of the units that tables declare, as text with the unit.

    A unit without a form of its own stands behind the number, ``(12.3, 'GB/s') -> '12.3 GB/s'``; a
    whole number without a unit is written out.
    """
    if math.isnan(value):
        return MISSING
    if unit in _FORMS:
        return _FORMS[unit](value)
    if unit:
        return f"{rate(value)} {unit}"
    return count(value) if float(value).is_integer() else rate(value)


def interval_of_unit(value: float, low: float, high: float, unit: str) -> str:
    """A number with the ends of its interval, the unit once, ``'12.3 ms (11.0 to 14.2)'``.

    Where one end alone is known: ``'12.3 ms (11.0 or more)'``. A ratio is in whole percent where
    its interval has no more digits, as in ``percent_interval``.
    """
    if math.isnan(value):
        return MISSING
    text = percent_within(value, low, high) if unit == "ratio" else of_unit(value, unit)
    if unit == "ratio" and says_nothing(value, low, high, widest=_WIDEST):
        return UNKNOWN
    # Units that differ, and a time of several units, stand at both ends.
    sign = f" {text.rpartition(' ')[2]}"
    is_one = " min " not in text and all(
        of_unit(end, unit).endswith(sign) for end in (low, high) if not math.isnan(end)
    )

    def end_text(end: float) -> str:
        digits = _decimals_of_percent(50 * (high - low)) if unit == "ratio" else 1
        shown = percent(end, digits) if unit == "ratio" else of_unit(end, unit)
        return shown.removesuffix(sign) if is_one else shown

    if math.isnan(low) or math.isnan(high):
        return text + _open_ends(low, high, end_text)
    return f"{text} ({end_text(low)} to {end_text(high)})"


def _open_ends(low: float, high: float, text: Callable[[float], str]) -> str:
    """The known end of an interval: a number without any end would look exact."""
    if not math.isnan(low):
        return f" ({text(low)} or more)"
    return "" if math.isnan(high) else f" ({text(high)} or less)"


_ROUNDED_TO_NEXT = 0.9995
"""With three digits, from this share of a unit on a number is printed as that unit."""


def _nearer_end(value: float, low: float, high: float) -> float:
    """The distance of a value to the nearer end of its interval; half of it where it lies outside.

    The digits of that distance are those that the interval supports.
    """
    nearer = min(value - low, high - value)
    return nearer if nearer > 0 else (high - low) / 2


def _decimals_of_percent(distance: float) -> int:
    """One decimal, none where the distance in points has two digits before the point."""
    return 0 if distance >= 9.95 else 1


def _place_of(distance: float) -> float:
    """The place of the second digit of a distance, at least 1: 1462 -> 100."""
    if not 0 < distance < math.inf:
        return 1.0
    return max(1.0, float(10 ** (math.floor(math.log10(distance)) - 1)))


def _to_place(value: float, place: float) -> float:
    return round(value / place) * place if place > 1 else value


def _is_even(below: float, above: float, *, smallest: float) -> bool:
    return max(below, above) <= 1.3 * min(below, above) + smallest


def _three_digits(value: float) -> str:
    return _significant(value, 3)


def _two_digits(value: float) -> str:
    return _significant(value, 2)


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    # 0.9996 becomes 1.00, not 1.000.
    rounded = abs(float(f"{value:.{digits - 1}e}"))
    decimals = digits - 1 - math.floor(math.log10(rounded))
    return f"{value:,.{max(decimals, 0)}f}"


def _milliseconds_per_megabyte(cost_ns: float) -> str:
    return f"{milliseconds(cost_ns)}/MB"


_FORMS: dict[str, Callable[[float], str]] = {
    "ns": milliseconds,
    "ns/MB": _milliseconds_per_megabyte,
    "bytes": byte_size,
    "ratio": percent,
    "s": seconds,
}
