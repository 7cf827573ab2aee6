"""The race of a tuning and the check of what wins, with real launches."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hvdprof.analyze.tune.finals import Finals, Raced, joined
from hvdprof.analyze.tune.racing import PRESENT, Race, RaceRules, RaceStanding
from hvdprof.api.tuning.candidates import Choice
from hvdprof.api.tuning.settings_by_turns import JobToTune, SettingsByTurns
from hvdprof.errors import HvdprofError, InterruptedRunError, SweepIncompleteError
from hvdprof.launch.plan.time_budget import LEAST_ROUNDS, MOST_CHECKED, TimeBudget, check_launches
from hvdprof.model.results.tuning import Candidate, Estimate, TrialOutcome
from hvdprof.model.run import RunAnalysis
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
        fewer_steps: Steps of a launch where the budget shortened them; None where it did not.
        left_s: Seconds of the budget that are left; infinite without one.
    """

    num_settings: int
    launch_s: float
    most_rounds: int
    most_repeats: int
    fewer_steps: int | None = None
    left_s: float = math.inf

    @property
    def shortest_s(self) -> float:
        """Seconds where all is decided as early as possible, and nothing reaches the check."""
        return LEAST_ROUNDS * (1 + self.num_settings) * self.launch_s

    @property
    def longest_s(self) -> float:
        """Seconds where nothing is decided before its end, or that of the budget."""
        raced = self.most_rounds * (1 + self.num_settings)
        checked = self.most_repeats * min(MOST_CHECKED, 1 + self.num_settings)
        return min((raced + checked) * self.launch_s, self.left_s)


class TuningProgress(Protocol):
    """Shows the progress of a tuning, beside that of its launches."""

    def present_measured(self, analysis: RunAnalysis, choice: Choice, plan: RacePlan) -> None:
        """The present setting is measured; what is tried, and how long that takes."""

    def round_ended(self, number: int, standings: Sequence[RaceStanding]) -> None:
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
    shown: TuningProgress | None

    def run(self, choice: Choice) -> tuple[Raced, HvdprofError | None]:
        """The race and the check, and what ended them early; what was measured is kept."""
        state = _State(Race(choice.candidates, RaceRules(self.margin, self.plan.most_rounds)))
        failure: HvdprofError | None = None
        try:
            self._run_all(choice, state)
        except HvdprofError as error:
            failure = error
        try:
            return self._raced(choice, state, is_complete=failure is None), failure
        except InterruptedRunError as error:
            # A second signal; ``interruptible`` ignores further ones.
            return self._raced(choice, state, is_complete=False), failure or error

    def _run_all(self, choice: Choice, state: "_State") -> None:
        race = state.race
        settings = {candidate.name: candidate for candidate in choice.candidates}
        state.turns = SettingsByTurns(
            self.job, settings, self.paths.race, most_rounds=self.plan.most_rounds
        )
        for name in state.turns.refused:
            race.drop(name, TrialOutcome.FAILED)
        if race.racing:
            self._run_race(race, state.turns)
        finalists = race.finalists()
        if finalists:
            self._run_check(finalists, state)

    def _run_race(self, race: Race, turns: SettingsByTurns) -> None:
        """Run the rounds.

        Raises:
            SweepIncompleteError: The present setting fails.
        """

        def after_round(number: int) -> Collection[str]:
            _drop_given_up(race, turns)
            race.look(turns.times)
            if self.shown is not None:
                self.shown.round_ended(number, race.standings)
            racing = len(race.racing)
            next_s = (1 + racing + check_launches(racing)) * turns.launch_s
            is_over = race.is_decided or next_s > self.budget.left_s
            return () if is_over or turns.is_given_up(PRESENT) else {PRESENT, *race.racing}

        turns.run(after_round)
        _require_present(turns)

    def _run_check(self, finalists: Sequence[Candidate], state: "_State") -> None:
        """Measure anew what won the race.

        Raises:
            SweepIncompleteError: The present setting fails.
        """
        most = self.plan.most_repeats
        finals = Finals(finalists, margin=self.margin, most_repeats=most)
        if self.shown is not None:
            self.shown.check_started(finals.entries)
        entries = {name: joined(entry) for name, entry in finals.entries.items()}
        turns = SettingsByTurns(self.job, entries, self.paths.check, most_rounds=most)
        state.finals, state.check = finals, turns

        def after_repeat(number: int) -> Collection[str]:
            given_up = _given_up(finals, turns)
            alive = entries.keys() - given_up
            next_s = (1 + len(alive)) * turns.launch_s
            is_decided = not alive or finals.is_decided(turns.times, number, given_up)
            is_over = is_decided or next_s > self.budget.left_s
            return () if is_over or turns.is_given_up(PRESENT) else {PRESENT, *alive}

        if entries.keys() - _given_up(finals, turns):
            turns.run(after_repeat)
            _require_present(turns)

    def _raced(self, choice: Choice, state: "_State", *, is_complete: bool) -> Raced:
        """What the race and the check measured so far."""
        race, turns, check = state.race, state.turns, state.check
        raced = Raced(margin=self.margin, standings=race.standings, untried=choice.untried)
        if turns is None:
            return raced
        if not is_complete and check is None:
            turns.read()
            _drop_given_up(race, turns)
            race.look(turns.times)
        numeric = [
            standing.candidate.name
            for standing in race.standings
            if standing.candidate.changes_numerics and standing.num_rounds
        ]
        raced = replace(
            raced,
            standings=race.standings,
            reasons={
                candidate.name: turns.reason(candidate.name) for candidate in choice.candidates
            },
            losses=_losses(turns, numeric),
            launches={
                candidate.name: turns.launches(candidate.name) for candidate in choice.candidates
            },
            present_failed=_present_failed(turns),
        )
        if check is None or state.finals is None:
            return raced
        if not is_complete:
            check.read()
        entries = state.finals.entries
        numeric = [name for name, one in entries.items() if joined(one).changes_numerics]
        return replace(
            raced,
            finals=state.finals,
            check_times=check.times,
            check_reasons={name: check.reason(name) for name in entries},
            check_losses=_losses(check, numeric),
            check_launches={name: check.launches(name) for name in entries},
            given_up=_given_up(state.finals, check),
            present_failed=_present_failed(check),
        )


@dataclass(slots=True)
class _State:
    """How far a tuning has got; each part is there as soon as its launches are prepared."""

    race: Race
    turns: SettingsByTurns | None = None
    finals: Finals | None = None
    check: SettingsByTurns | None = None


def _require_present(turns: SettingsByTurns) -> None:
    reason = _present_failed(turns)
    if reason:
        raise SweepIncompleteError(f"{_PRESENT_FAILED}: {reason}.")


def _present_failed(turns: SettingsByTurns) -> str:
    """Why the present setting failed too often; empty where it did not."""
    return turns.reason(PRESENT) if turns.is_given_up(PRESENT) else ""


def _given_up(finals: Finals, turns: SettingsByTurns) -> frozenset[str]:
    return frozenset(name for name in finals.entries if turns.is_given_up(name))


def _drop_given_up(race: Race, turns: SettingsByTurns) -> None:
    for name in race.racing:
        if turns.is_given_up(name):
            race.drop(name, TrialOutcome.FAILED)


def _losses(turns: SettingsByTurns, names: Sequence[str]) -> dict[str, Estimate]:
    """The changes of the final loss that are known, by setting."""
    found = {name: turns.loss_change(name) for name in names}
    return {name: one for name, one in found.items() if one is not None}
