"""What a race of settings measured, and the check of its winners against the present.

Winners that are used together may gain less than their sum, or more.

What wins a race is partly lucky, so that its gain there is too large. It is measured anew, by turns
with the present setting, and judged by the differences of neighbours. The 5 % that an interval may
miss are divided by the looks and by the settings that are checked: constants of Pocock are those of
known variances, and Student's t of few launches exceeds 5 % with them.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import spread
from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.analyze.tune.racing import PRESENT, RaceStanding, Times, gain_of
from hvdprof.model.cell_key import CELL_KEY, TORCH_ENGINE
from hvdprof.model.results.tuning import Candidate, Estimate, Trial, TrialOutcome
from hvdprof.model.run import Run
from hvdprof.rundir.stopping import comparison_looks

CONFIDENCE = 0.95
BEST, TOGETHER = "best", "together"


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


class Finals:
    """What is checked, and what of it is confirmed.

    Attributes:
        entries: By name, the candidates that are joined: the best one, and all together where
            there are several.
        looks: The repeats after which it is looked at, the last one included.
    """

    def __init__(self, finalists: Sequence[Candidate], *, margin: float, most_repeats: int) -> None:
        """Prepare the check of the finalists of a race, the best one first."""
        self.entries: Mapping[str, tuple[Candidate, ...]] = {BEST: tuple(finalists[:1])}
        if len(finalists) > 1:
            self.entries = {**self.entries, TOGETHER: tuple(finalists)}
        self.looks = comparison_looks(most_repeats)
        self._rules = CheckRules(margin, len(self.looks), len(self.entries))

    def confirmations(self, times: Times) -> dict[str, Confirmation]:
        """What is known of each entry."""
        return {name: confirmation(times, name, self._rules) for name in self.entries}

    def is_decided(self, times: Times, repeat: int, given_up: Collection[str] = ()) -> bool:
        """Whether it is looked at after this repeat, and more could change nothing."""
        found = {
            name: one for name, one in self.confirmations(times).items() if name not in given_up
        }
        if repeat not in self.looks:
            return False
        if len(found) > 1 and all(entry.is_confirmed for entry in found.values()):
            # Launches decide what all together add, where they seem to add what matters.
            more = found[TOGETHER].gain.value - found[BEST].gain.value
            return more < self._rules.margin or self.added(times).low > 0
        return all(entry.is_confirmed or entry.is_refuted for entry in found.values())

    def winner(self, times: Times, given_up: Collection[str] = ()) -> str | None:
        """The confirmed entry with the larger gain; None without any.

        All together win only where they gain the margin more than the best one, and where that
        difference is beyond noise: what gains nothing need not be set.

        Args:
            times: Those of the check.
            given_up: Entries whose launches failed too often; they cannot win.
        """
        found = self.confirmations(times)
        confirmed = [
            name for name, one in found.items() if one.is_confirmed and name not in given_up
        ]
        if len(confirmed) < 2:
            return confirmed[0] if confirmed else None
        more = found[TOGETHER].gain.value - found[BEST].gain.value
        is_more = more >= self._rules.margin and self.added(times).low > 0
        return TOGETHER if is_more else BEST

    def added(self, times: Times) -> Estimate:
        """The gain of all together over the best one, by their common repeats.

        Open ends below two of them, NaN without any.
        """
        best, together = times.get(BEST, {}), times.get(TOGETHER, {})
        change = spread(
            [together[repeat] - best[repeat] for repeat in sorted(best.keys() & together)]
        )
        half = math.inf
        if change.degrees >= 1:
            quantile = student_quantile(change.degrees, 1 - self._rules.level / 2)
            half = quantile * math.sqrt(change.variance)
        return gain_of(Estimate(change.value, change.value - half, change.value + half))


def joined(candidates: Sequence[Candidate]) -> Candidate:
    """Several candidates as one that sets what all of them set."""
    environment: dict[str, str] = {}
    options: dict[str, str | int | float | bool] = {}
    for candidate in candidates:
        environment |= candidate.environment
        options |= candidate.options
    return Candidate(
        name=" + ".join(candidate.name for candidate in candidates),
        environment=environment,
        options=options,
        arguments=tuple(word for candidate in candidates for word in candidate.arguments),
        changes_numerics=any(candidate.changes_numerics for candidate in candidates),
    )


@dataclass(frozen=True, slots=True)
class LaunchCount:
    """The launches of a setting that ended, and those of them that failed."""

    num: int = 0
    num_failed: int = 0

    def __add__(self, other: "LaunchCount") -> "LaunchCount":
        """Both together."""
        return LaunchCount(self.num + other.num, self.num_failed + other.num_failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What a race and its check measured.

    Attributes:
        margin: Smallest gain that matters.
        standings: The candidates at the end of the race.
        untried: Trials of what did not race.
        too_long_s: Seconds of the shortest race where the budget left less, so that none began.
        reasons: Why candidates failed in the race, by name.
        losses: Changes of the final loss in the race, by name.
        launches: Launches in the race, by name.
        present_failed: Why the present setting failed too often; empty where it did not.
        finals: The check; None where nothing reached it.
        check_times: The times of the check.
        check_reasons: Why entries failed in the check, by name.
        check_losses: Changes of the final loss in the check, by name.
        check_launches: Launches in the check, by name.
        given_up: Entries of the check that failed too often.
    """

    margin: float
    standings: tuple[RaceStanding, ...] = ()
    untried: tuple[Trial, ...] = ()
    too_long_s: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, Estimate] = field(default_factory=dict)
    launches: Mapping[str, LaunchCount] = field(default_factory=dict)
    present_failed: str = ""
    finals: Finals | None = None
    check_times: Times = field(default_factory=dict)
    check_reasons: Mapping[str, str] = field(default_factory=dict)
    check_losses: Mapping[str, Estimate] = field(default_factory=dict)
    check_launches: Mapping[str, LaunchCount] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()

    @property
    def winner(self) -> str | None:
        """The entry of the check that is named; None where nothing pays."""
        if self.finals is None:
            return None
        return self.finals.winner(self.check_times, self.given_up)

    @property
    def named(self) -> tuple[Candidate, ...]:
        """The candidates that are named."""
        winner = self.winner
        return () if self.finals is None or winner is None else self.finals.entries[winner]

    @property
    def failed(self) -> tuple[Candidate, ...]:
        """The candidates that failed too often, in the race or alone in the check."""
        alone = self.finals.entries[BEST] if self.finals and BEST in self.given_up else ()
        return tuple(
            standing.candidate
            for standing in self.standings
            if standing.outcome is TrialOutcome.FAILED or standing.candidate in alone
        )

    @property
    def tried(self) -> tuple[RaceStanding, ...]:
        """The candidates with a result that did not fail."""
        failed = self.failed
        return tuple(
            standing
            for standing in self.standings
            if standing.num_rounds and standing.candidate not in failed
        )


def log_times(run: Run) -> dict[int, float]:
    """By repeat, the logarithm of the time per sample: the mean over the cells of the launch.

    A repeat counts where all cells of the run have a result in it. Where the samples of a step are
    unknown it is the time per step, which compares settings of the same batch size.

    Args:
        run: The throughput passes of a run, finished or not.
    """
    measured = measured_launches(run)
    step_times = {
        (str(row["pass_id"]), str(row["segment"])): float(row["step_time_ns"])
        for row in measured.by_launch.to_dict("records")
    }
    found: dict[int, dict[tuple[object, ...], float]] = {}
    cells = set()
    for row in run.segments.to_dict("records"):
        key = (str(row["pass_id"]), str(row["segment"]))
        if row["engine"] == TORCH_ENGINE:
            continue
        cell = tuple(row[name] for name in ("size" if part == "np" else part for part in CELL_KEY))
        cells.add(cell)
        if step_times.get(key, 0.0) > 0:
            samples = measured.facts[key].samples
            work = samples if samples > 0 else 1.0
            found.setdefault(int(row["repeat"]), {})[cell] = math.log(step_times[key] / work)
    return {
        repeat: float(np.mean(list(values.values())))
        for repeat, values in found.items()
        if values.keys() == cells
    }
