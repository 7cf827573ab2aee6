"""How long passes take, and how many settings of a tuning fit into its time."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from hvdprof.errors import UsageError
from hvdprof.rundir.manifest import PassRecord, Status
from hvdprof.units import duration

LEAST_ROUNDS = 2
LEAST_REPEATS = 3
MOST_CHECKED = 3
"""In the check: the present setting, the best one, and all winners together."""

_ROUNDED_TO_S = 10.0
ASSUMED_UNIT_S = 2.0
"""Seconds for the start of a launch, and for each model in it beside its measured seconds."""

_Kind = tuple[int, str, str]


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


class PassTimes:
    """Estimates seconds of passes.

    A pass takes its measured seconds and one unit for its start and for each of its segments. The
    unit is that of the ended passes of the same size, engine and mode, else of any.

    Args:
        ended: Passes, of which those that ended well count.
    """

    def __init__(self, ended: Iterable[PassRecord]) -> None:
        self._units: dict[_Kind, list[float]] = {}
        for record in ended:
            if record.status == Status.DONE and record.duration_s and record.segments:
                unit = (record.duration_s - _measured_s(record)) / _num_units(record)
                self._units.setdefault(_kind(record), []).append(max(unit, 0.0))

    @property
    def num_passes(self) -> int:
        """The number of passes that the estimates rest on."""
        return sum(map(len, self._units.values()))

    def seconds(self, record: PassRecord) -> float | None:
        """Seconds of a pass; None where steps of unknown length bound it."""
        units = self._units.get(_kind(record)) or [
            unit for units in self._units.values() for unit in units
        ]
        if not units and any(segment.segment.max_seconds is None for segment in record.segments):
            return None
        unit = fmean(units) if units else ASSUMED_UNIT_S
        return unit * _num_units(record) + _measured_s(record)

    def total(self, records: Sequence[PassRecord]) -> float | None:
        """Seconds of several passes, one after the other."""
        known = [self.seconds(record) for record in records]
        return None if None in known else sum(filter(None, known))

    def start_seconds(self, record: PassRecord) -> float:
        """Seconds of a segment of a pass that are not measured steps."""
        units = self._units.get(_kind(record), [ASSUMED_UNIT_S])
        return fmean(units) * _num_units(record) / max(len(record.segments), 1)


def _kind(record: PassRecord) -> _Kind:
    return record.size, record.engine, record.mode


def _num_units(record: PassRecord) -> int:
    return 1 + len(record.segments)


def _measured_s(record: PassRecord) -> float:
    return sum(segment.segment.max_seconds or 0.0 for segment in record.segments)
