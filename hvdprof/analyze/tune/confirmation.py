"""Whether the gain of a setting is beyond noise, by launches that chose nothing.

What wins a race is partly lucky, so that its gain there is too large. It is measured anew, by turns
with the present setting, and judged by the differences of neighbours. The 5 % that an interval may
miss are divided by the looks and by the settings that are checked: constants of Pocock are those of
known variances, and Student's t of few launches exceeds 5 % with them. Tested in
``tests/analyze/tune/test_racing.py``.
"""

import math
from dataclasses import dataclass

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.launch_spread import spread
from hvdprof.analyze.tune.racing import PRESENT, Times, gain_of
from hvdprof.model.tuning import Estimate

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The rules of a check.

    Attributes:
        margin: Smallest gain that matters, a share of the step time.
        num_looks: How often it is looked at.
        num_settings: The settings that are checked against the present one.
    """

    margin: float
    num_looks: int
    num_settings: int

    @property
    def level(self) -> float:
        """The two-sided level of one interval."""
        return (1 - CONFIDENCE) / self.num_looks / self.num_settings


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A setting against the present one.

    Attributes:
        gain: Its gain; NaN where no repeat of both ended, open ends after a single one.
        num_repeats: Repeats that both ended.
        is_confirmed: Whether the gain is surely above 0, and measured to be at least the margin.
        is_refuted: Whether the gain is surely below the margin.
    """

    gain: Estimate
    num_repeats: int
    is_confirmed: bool
    is_refuted: bool


def confirmation(times: Times, name: str, rules: CheckRules) -> Confirmation:
    """What is known of a setting after some repeats.

    Args:
        times: Those of the check, the present setting among them.
        name: The setting.
        rules: Those of the check.
    """
    present, own = times.get(PRESENT, {}), times.get(name, {})
    shared = sorted(present.keys() & own.keys())
    change = spread([own[number] - present[number] for number in shared])
    half = math.inf
    if len(shared) > 1:
        half = student_quantile(change.degrees, 1 - rules.level / 2) * math.sqrt(change.variance)
    gain = gain_of(Estimate(change.value, change.value - half, change.value + half))
    return Confirmation(
        gain,
        len(shared),
        is_confirmed=gain.low > 0 and gain.value >= rules.margin,
        is_refuted=gain.high < rules.margin,
    )
