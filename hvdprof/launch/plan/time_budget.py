"""The time that a tuning may use, and how many settings fit into it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hvdprof.errors import UsageError
from hvdprof.units import duration

LEAST_ROUNDS = 2
LEAST_REPEATS = 3
MOST_CHECKED = 3
"""In the check: the present setting, the best one, and all winners together."""

_ROUNDED_TO_S = 10.0


@dataclass(slots=True)
class TimeBudget:
    """The time since the beginning, held against what may be used.

    Attributes:
        limit_s: Seconds that may be used; infinite without a budget.
        now_s: The clock, seconds.
    """

    limit_s: float = math.inf
    now_s: Callable[[], float] = time.monotonic
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._began_s = self.now_s()

    @property
    def used_s(self) -> float:
        """Seconds since the beginning."""
        return self.now_s() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self.limit_s - self.used_s

    def settings_that_fit(self, launch_s: float) -> float:
        """The settings that fit beside the present one: two rounds of each, and a short check.

        Args:
            launch_s: Seconds of a launch.
        """
        if self.limit_s == math.inf:
            return math.inf
        launches = self.left_s / max(launch_s, 1e-9) - check_launches()
        return max(0, math.floor(launches / LEAST_ROUNDS) - 1)

    def require(self, planned_s: float, launch_s: float) -> None:
        """Check that one setting can be tried.

        Args:
            planned_s: Seconds of what precedes the race and is still to come.
            launch_s: Seconds of a launch.

        Raises:
            UsageError: It cannot; the hint states the shortest budget.
        """
        needed_s = planned_s + (2 * LEAST_ROUNDS + check_launches()) * launch_s
        if needed_s > self.left_s:
            shortest_s = math.ceil((self.used_s + needed_s) / _ROUNDED_TO_S) * _ROUNDED_TO_S
            raise UsageError(
                f"--budget {self.limit_s:g}s is too short to try one setting: a launch takes "
                f"about {duration(launch_s)}.",
                hint=f"Shortest useful budget: --budget {shortest_s:g}s",
            )


def check_launches() -> int:
    """The launches of the shortest check."""
    return LEAST_REPEATS * MOST_CHECKED
