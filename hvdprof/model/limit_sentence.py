"""The sentence on the largest number of ranks at the target, for verdicts of every forecast.

Tested in ``tests/analyze/predict/test_throughput_forecast.py``.
"""

from hvdprof import units
from hvdprof.model.forecast import Limits


def limit_sentence(limits: Limits, target: float) -> str:
    """Up to how many ranks the efficiency reaches the target, with the 90 % interval."""
    goal = units.percent_limit(target)
    if limits.largest_np_high < 1:
        return f"No predicted size reaches {goal}."
    low = "unknown" if limits.is_low_open else units.count(limits.largest_np_low)
    high = "more than " * limits.is_high_beyond + units.count(limits.largest_np_high)
    interval = f"90 % interval {low} to {high}"
    if limits.is_beyond:
        beyond = f"{goal} or more is likely up to {units.count(limits.largest_np)} ranks and beyond"
        return f"{beyond} ({interval})."
    if limits.largest_np < 1:
        return (
            f"No predicted size is likely to reach {goal} (90 % interval: up to "
            f"{units.count(limits.largest_np_high)} ranks{' or more' * limits.is_high_beyond})."
        )
    return f"{goal} is reached up to {units.count(limits.largest_np)} ranks ({interval})."
