"""The race of a tuning and the check of what wins, with real launches.

Tested in ``tests/test_tune_end_to_end.py``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hvdprof.analyze.tune.finals import Finals, joined
from hvdprof.analyze.tune.racing import PRESENT, Race, RaceRules, Standing
from hvdprof.analyze.tune.tuning_result import Raced
from hvdprof.api.settings_by_turns import JobToTune, SettingsByTurns
from hvdprof.api.tuning_candidates import Choice
from hvdprof.errors import HvdprofError, InterruptedRunError, StorageError, SweepIncompleteError
from hvdprof.launch.plan.time_budget import (
    LEAST_ROUNDS,
    MOST_CHECKED,
    TimeBudget,
    check_launches,
)
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tuning import Candidate, Estimate, TrialOutcome
from hvdprof.rundir.layout import TuningPaths

_PRESENT_FAILED = "The present setting failed beside the others"


@dataclass(frozen=True, slots=True)
class RacePlan:
    """What follows the run of the present setting.

    Attributes:
        num_settings: The settings that race, beside the present one.
        launch_s: Seconds of a launch.
        most_rounds: Rounds of the race at most.
        most_repeats: Repeats of the check at most.
    """

    num_settings: int
    launch_s: float
    most_rounds: int
    most_repeats: int

    @property
    def shortest_s(self) -> float:
        """Seconds where all is decided as early as possible, and nothing reaches the check."""
        return LEAST_ROUNDS * (1 + self.num_settings) * self.launch_s

    @property
    def longest_s(self) -> float:
        """Seconds where nothing is decided before its end."""
        raced = self.most_rounds * (1 + self.num_settings)
        checked = self.most_repeats * min(MOST_CHECKED, 1 + self.num_settings)
        return (raced + checked) * self.launch_s


class TuningObserver(Protocol):
    """Shows the progress of a tuning, beside that of its launches."""

    def present_measured(self, analysis: RunAnalysis, choice: Choice, plan: RacePlan) -> None:
        """The present setting is measured; what is tried, and how long that takes."""

    def round_ended(self, number: int, standings: Sequence[Standing]) -> None:
        """A round of the race has ended."""

    def check_started(self, entries: Mapping[str, tuple[Candidate, ...]]) -> None:
        """The race is over; its winners are measured anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceOfSettings:
    """A race that is ready to start.

    Attributes:
        job: The job and its present setting.
        paths: The folder of the tuning.
        plan: The limits of the race and the check.
        margin: Smallest gain that matters.
        budget: The time that is left.
        shown: Shows the progress; None for none.
    """

    job: JobToTune
    paths: TuningPaths
    plan: RacePlan
    margin: float
    budget: TimeBudget
    shown: TuningObserver | None

    def run(self, choice: Choice) -> tuple[Raced, HvdprofError | None]:
        """The race and the check, and what ended them early."""
        race = Race(choice.candidates, RaceRules(self.margin, self.plan.most_rounds))
        settings = {one.name: one for one in choice.candidates}
        turns = SettingsByTurns(
            self.job, settings, self.paths.race, most_rounds=self.plan.most_rounds
        )
        for name in turns.refused:
            race.drop(name, TrialOutcome.FAILED)
        failure = self._run_race(race, turns) if race.racing else None
        numeric = [one.candidate.name for one in race.standings if _is_numeric(one)]
        raced = Raced(
            margin=self.margin,
            standings=race.standings,
            untried=choice.untried,
            reasons={one.name: turns.reason(one.name) for one in choice.candidates},
            losses=_losses(turns, numeric),
        )
        finalists = race.finalists()
        if failure is not None or not finalists:
            return raced, failure
        return self._checked(raced, finalists)

    def _run_race(self, race: Race, turns: SettingsByTurns) -> HvdprofError | None:
        """Run the rounds; what ended them early."""

        def after_round(number: int) -> Collection[str]:
            _drop_given_up(race, turns)
            race.look(turns.times)
            if self.shown is not None:
                self.shown.round_ended(number, race.standings)
            next_s = (1 + len(race.racing) + check_launches()) * turns.launch_s
            is_over = race.is_decided or next_s > self.budget.left_s
            return () if is_over or turns.is_given_up(PRESENT) else {PRESENT, *race.racing}

        try:
            turns.run(after_round)
        except (InterruptedRunError, StorageError) as error:
            turns.read()
            _drop_given_up(race, turns)
            race.look(turns.times)
            return error
        if turns.is_given_up(PRESENT):
            return SweepIncompleteError(f"{_PRESENT_FAILED}: {turns.reason(PRESENT)}.")
        return None

    def _checked(
        self, raced: Raced, finalists: Sequence[Candidate]
    ) -> tuple[Raced, HvdprofError | None]:
        """The check of what won the race."""
        most = self.plan.most_repeats
        finals = Finals(finalists, margin=self.margin, most_repeats=most)
        if self.shown is not None:
            self.shown.check_started(finals.entries)
        entries = {name: joined(entry) for name, entry in finals.entries.items()}
        turns = SettingsByTurns(self.job, entries, self.paths.check, most_rounds=most)

        def after_repeat(number: int) -> Collection[str]:
            alive = {name for name in entries if not turns.is_given_up(name)}
            next_s = (1 + len(alive)) * turns.launch_s
            is_over = finals.is_decided(turns.times, number) or next_s > self.budget.left_s
            return () if is_over or turns.is_given_up(PRESENT) else {PRESENT, *alive}

        failure: HvdprofError | None = None
        try:
            turns.run(after_repeat)
        except (InterruptedRunError, StorageError) as error:
            turns.read()
            failure = error
        numeric = [name for name, one in entries.items() if one.changes_numerics]
        return replace(
            raced,
            finals=finals,
            check_times=turns.times,
            check_reasons={name: turns.reason(name) for name in entries},
            check_losses=_losses(turns, numeric),
        ), failure


def _drop_given_up(race: Race, turns: SettingsByTurns) -> None:
    for name in race.racing:
        if turns.is_given_up(name):
            race.drop(name, TrialOutcome.FAILED)


def _is_numeric(standing: Standing) -> bool:
    return standing.candidate.changes_numerics and standing.num_rounds > 0


def _losses(turns: SettingsByTurns, names: Sequence[str]) -> dict[str, Estimate]:
    """The changes of the final loss that are known, by setting."""
    found = {name: turns.loss_change(name) for name in names}
    return {name: one for name, one in found.items() if one is not None}
