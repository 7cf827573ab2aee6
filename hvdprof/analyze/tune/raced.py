"""What a race of settings and its check measured, and the times that they compare."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.analyze.tune.finals import BEST, Finals
from hvdprof.analyze.tune.racing import RaceStanding, Times
from hvdprof.model.cell_key import CELL_KEY, TORCH_ENGINE
from hvdprof.model.results.tuning import Candidate, Estimate, Trial, TrialOutcome
from hvdprof.model.run import Run


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
