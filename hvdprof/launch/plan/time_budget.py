"""How long passes and runs take, and how many settings of a tuning fit into its time."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.settings import read_settings
from hvdprof.rundir.layout import MANIFEST_NAME
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, Status
from hvdprof.rundir.masking import mask_command
from hvdprof.units import duration, seconds

LEAST_ROUNDS = 2
LEAST_REPEATS = 3
MOST_CHECKED = 3
"""In the check: the present setting, the best one, and all winners together."""

LEAST_STEPS = 30
"""A launch of a race is not shortened to fewer steps: intervals need so many."""

_BUDGET_STEP_S = 10.0
_BUDGET_STEP_S, _SLACK = 10.0, 1.1
ASSUMED_UNIT_S = 2.0
"""Seconds for the start of a launch, and for each model in it beside its measured seconds."""

MOST_EARLIER_RUNS = 30
ROUNDED_TO_S = 5.0
_PLACES = (f"*/{MANIFEST_NAME}", f"*/present/{MANIFEST_NAME}")
"""Where run directories lie in a folder of runs: the present setting of a tuning is one, too."""

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

    def require(self, planned_s: float, least_s: float, basis: str) -> None:
        """Check, before anything runs, that what precedes a race fits by an estimate.

        ``planned_s`` are seconds of it, ``least_s`` those with the shortest race.

        Raises:
            UsageError: It does not; the hint states the shortest budget with a race.
        """
        if planned_s > self.left_s:
            raise UsageError(
                f"--budget {self.limit_s:g}s is too short: the present setting alone takes about "
                f"{duration(planned_s)} ({basis}).",
                hint=f"With a race of one setting: --budget {useful_budget_s(least_s):g}"
                "s, or fewer steps per launch: --num-steps",
            )


def useful_budget_s(needed_s: float) -> float:
    """A budget, seconds, for what is estimated to take so long: launches differ."""
    return math.ceil((_SLACK * needed_s + _BUDGET_STEP_S) / _BUDGET_STEP_S) * _BUDGET_STEP_S


@dataclass(frozen=True, slots=True)
class LaunchLength:
    """Seconds of a launch, of its start and end and of each of ``num_steps`` measured steps.

    Without any (0) it cannot be shortened.
    """

    start_s: float
    step_s: float
    num_steps: int

    def seconds(self, num_steps: int | None = None) -> float:
        """Seconds of a launch with so many measured steps; its own when not given."""
        return self.start_s + self.step_s * (num_steps or self.num_steps)

    @property
    def shortest_race_s(self) -> float:
        """Seconds of the shortest useful race of one setting, with its check."""
        return race_launches(1) * self.seconds(min(self.num_steps, LEAST_STEPS))

    def race_within(self, left_s: float, num_settings: int) -> tuple[int, int]:
        """How many of some settings can race in so many seconds, and the steps of a launch.

        Launches are shortened before settings are left out; 0 settings where not one can race.
        """
        for num in range(num_settings, 0, -1):
            launch_s = left_s / race_launches(num)
            if launch_s >= self.seconds():
                return num, self.num_steps
            if launch_s >= self.seconds(min(self.num_steps, LEAST_STEPS)):
                return num, int((launch_s - self.start_s) / self.step_s)
        return 0, self.num_steps


def race_launches(num_settings: int) -> int:
    """The launches of the shortest race of some settings and the present one, with its check."""
    return LEAST_ROUNDS * (1 + num_settings) + check_launches(num_settings)


def check_launches(num_settings: int) -> int:
    """The launches of the shortest check after a race of so many settings."""
    return LEAST_REPEATS * min(MOST_CHECKED, 1 + num_settings)


class PassTimes:
    """Estimates seconds of passes.

    A pass takes its measured seconds and one unit for its start and for each of its segments. The
    unit is that of the ended passes of the same size, engine and mode, else of any.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlan:
    """The estimate of a run.

    Attributes:
        planned_s: Seconds of the passes that are planned and have not ended; None where unknown.
        repeat_s: Seconds of each further repeat; None where unknown.
        basis: What the estimate rests on.
    """

    planned_s: float | None
    repeat_s: float | None
    basis: str

    @property
    def shortest_useful_s(self) -> float | None:
        """Two repeats, the least that shows how much launches differ; None where unknown."""
        if self.planned_s is None or self.repeat_s is None:
            return None
        return math.ceil((self.planned_s + self.repeat_s) / ROUNDED_TO_S) * ROUNDED_TO_S


def time_plan(manifest: Manifest, runs_folder: Path) -> TimePlan:
    """The estimate of a prepared or interrupted run.

    Args:
        manifest: The run.
        runs_folder: Where earlier runs lie; the newest one of the same kind is the basis, where
            this run has no ended passes.
    """
    own = PassTimes(manifest.passes)
    times, basis = own, "the launches so far"
    if not own.num_passes:
        earlier = _earlier_run(manifest, runs_folder)
        times = PassTimes(earlier[1].passes if earlier else ())
        basis = f"as in the earlier run {earlier[0]}" if earlier else ""
    planned = [record for record in manifest.passes if record.status == Status.PLANNED]
    of_mode = [record for record in manifest.passes if record.mode == Mode.THROUGHPUT]
    repeat = [record for record in of_mode if record.repeat == 1]
    planned_s, repeat_s = times.total(planned), times.total(repeat)
    if not basis:
        basis = (
            "no earlier run of this kind; corrected after the first launches"
            if planned_s is not None
            else "unknown before the first launch"
        )
    return TimePlan(planned_s=planned_s, repeat_s=repeat_s, basis=basis)


def fit_budget(manifest: Manifest, runs_folder: Path, *, is_given: bool) -> None:
    """Check the budget of a prepared run; one of a preset becomes the shortest useful one.

    Args:
        manifest: The run; its settings change where the budget does.
        runs_folder: Where earlier runs lie.
        is_given: Whether the user gave the budget.

    Raises:
        UsageError: The budget is too short for one repeat.
    """
    settings = read_settings(manifest)
    plan = time_plan(manifest, runs_folder)
    shortest_s = plan.shortest_useful_s
    if settings.budget_s is None or shortest_s is None or plan.planned_s is None:
        return
    if not is_given:
        manifest.settings["budget_s"] = max(settings.budget_s, shortest_s)
    elif settings.budget_s < plan.planned_s:
        options = settings.options
        has_less = isinstance(options, BenchOptions) and options.preset != "quick"
        raise UsageError(
            f"--budget {settings.budget_s:g}s is too short: one repeat takes about "
            f"{seconds(plan.planned_s, whole=True)} ({plan.basis}).",
            hint=f"Shortest useful budget, two repeats: --budget {shortest_s:g}s"
            + ("; smaller models and fewer steps: --preset quick" if has_less else ""),
        )


def _earlier_run(manifest: Manifest, folder: Path) -> tuple[Path, Manifest] | None:
    """The newest finished run of the same kind on the same host, of the newest in a folder."""
    found = (path for each in _PLACES for path in folder.glob(each)) if folder.is_dir() else ()
    paths = sorted(found, reverse=True)
    wanted = run_kind(manifest)
    for path in islice(paths, MOST_EARLIER_RUNS):
        try:
            earlier = Manifest.read(path.parent)
        except UnreadableInputError:
            # One that is not whole is no basis.
            continue
        if run_kind(earlier) == wanted and PassTimes(earlier.passes).num_passes:
            return path.parent, earlier
    return None


def run_kind(manifest: Manifest) -> tuple[object, ...]:
    """What runs have in common whose passes take the same time; empty of another version."""
    try:
        settings = read_settings(manifest)
    except ValueError:
        return ()
    return (
        [host.get("hostname") for host in manifest.hosts[:1]],
        settings.hosts,
        settings.models,
        settings.script and mask_command(settings.script.command),
        settings.num_threads,
        settings.num_warmup_batches,
        settings.options.num_steps,
        settings.of_models.scaling,
        settings.device,
    )
