"""Why a measurement stopped, in one sentence."""

from hvdprof import units
from hvdprof.rundir.stopping import Stop, StopReason

_REPEATS_TO_PREDICT = 2
"""One launch of each cell does not show how much launches differ."""


_LONGEST_S = 86_400.0
"""Half an interval falls with the square root of the time: no such estimate is a plan."""


def stop_text(stop: Stop | None) -> str:
    """``Stopped after 3 of at most 6 repeats: ±2.4 % reached (3 % asked).``, empty without a stop.

    Where the precision was not reached: ``Stopped at 5 min, after 2 repeats: ±4.2 % reached, 3 %
    needs about 4 min more.``
    """
    if stop is None:
        return ""
    reached = _reached(stop)
    return f"{_end(stop)}: {reached}." if reached else f"{_end(stop)}."


def _end(stop: Stop) -> str:
    repeats = f"{stop.num_repeats} repeat" + ("" if stop.num_repeats == 1 else "s")
    if stop.reason == StopReason.BUDGET:
        return f"Stopped at {units.duration(stop.elapsed_s)}, after {repeats}"
    if stop.reason == StopReason.NOTHING:
        return f"Stopped after {repeats}, with no efficiency to narrow"
    return f"Stopped after {stop.num_repeats} of at most {stop.most_repeats} repeats"


def _reached(stop: Stop) -> str:
    if stop.half_width is None:
        return ""
    reached = f"±{units.two_digit_percent(stop.half_width)} reached"
    if stop.precision is None:
        return reached
    asked = units.percent_limit(stop.precision)
    if stop.half_width <= stop.precision:
        return f"{reached} ({asked} asked)"
    if stop.missing_s is None or stop.num_repeats < _REPEATS_TO_PREDICT:
        return f"{reached} ({asked} asked)"
    if stop.missing_s > _LONGEST_S:
        return f"{reached}, {asked} is out of reach here (more than a day)"
    return f"{reached}, {asked} needs about {units.duration(_rounded(stop.missing_s))} more"


def _rounded(missing_s: float) -> float:
    """Whole minutes from two minutes on: an estimate has no more."""
    return round(missing_s / 60) * 60 if missing_s >= 120 else round(missing_s / 10) * 10 or 10
