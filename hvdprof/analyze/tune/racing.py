"""Which settings of a race are worth another launch, and which of them are checked at its end.

Settings run in rounds, each once beside the present setting. The logarithm of the time per sample
is an effect of the setting plus one of the round plus noise of the launch; the variance of the
noise is that of all settings together, because two rounds of one setting alone know nothing of it.
All bounds of a race hold together with 95 % (Bonferroni over settings, pairs of alternatives, and
rounds after which it is looked). A race only chooses: what it chooses is measured anew before it
is named (``analyze.tune.finals``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.results.tuning import Candidate, Estimate, TrialOutcome

PRESENT = "present"
"""The name of the present setting among those that race."""

FIRST_LOOK = 2
_LEVEL = 0.05

FAR_SLOWER = 4.0
"""A launch that takes so many times as long is dropped at once: no noise explains it."""

_OF_OTHER_NOISE = (TrialOutcome.WORSE, TrialOutcome.FAILED)

Times = Mapping[str, Mapping[int, float]]
"""By setting and round, the logarithm of the time per sample."""


@dataclass(frozen=True, slots=True)
class RaceRules:
    """The rules of a race.

    Attributes:
        margin: Smallest gain that matters, a share of the step time.
        most_rounds: After so many rounds the race ends.
    """

    margin: float
    most_rounds: int


@dataclass(frozen=True, slots=True)
class RaceStanding:
    """A candidate after some rounds.

    Attributes:
        candidate: The setting.
        gain: Its gain over the present setting; its interval holds together with all others of the
            race. NaN where it has no result yet.
        num_rounds: Rounds that both ended.
        outcome: Why it is dropped; None while it races.
        is_ahead: Whether it is surely faster than the present setting.
    """

    candidate: Candidate
    gain: Estimate
    num_rounds: int
    outcome: TrialOutcome | None
    is_ahead: bool


class Race:
    """Candidates against the present setting, round after round."""

    def __init__(self, candidates: Sequence[Candidate], rules: RaceRules) -> None:
        """Begin a race; names of candidates are unique."""
        self._rules = rules
        self._candidates = tuple(candidates)
        self._standings = {
            candidate.name: RaceStanding(
                candidate, Estimate(NAN, NAN, NAN), 0, None, is_ahead=False
            )
            for candidate in candidates
        }
        num_pairs = sum(
            one.is_alternative_to(other)
            for place, one in enumerate(candidates)
            for other in candidates[:place]
        )
        num_looks = max(rules.most_rounds - FIRST_LOOK + 1, 1)
        self._level = _LEVEL / max(len(candidates) + num_pairs, 1) / num_looks

    @property
    def standings(self) -> tuple[RaceStanding, ...]:
        """The candidates in their order, as of the last look."""
        return tuple(self._standings.values())

    @property
    def racing(self) -> frozenset[str]:
        """The names of the candidates that are not dropped."""
        return frozenset(
            standing.candidate.name for standing in self.standings if standing.outcome is None
        )

    @property
    def is_decided(self) -> bool:
        """Whether further rounds could change nothing: all that race are ahead, or none race."""
        return all(standing.is_ahead for standing in self.standings if standing.outcome is None)

    def drop(self, name: str, outcome: TrialOutcome) -> None:
        """Take a candidate out of the race."""
        before = self._standings[name]
        self._standings[name] = RaceStanding(
            before.candidate, before.gain, before.num_rounds, outcome, is_ahead=False
        )

    def look(self, times: Times) -> None:
        """Drop what cannot win any more.

        1.  A candidate whose gain is surely below the margin: WORSE where it is surely slower than
            the present setting, NO_GAIN otherwise.
        2.  A candidate that is surely not better, by the margin, than the fastest of those that set
            the same variable: OUTRUN.

        A candidate that takes ``FAR_SLOWER`` times as long is WORSE after its first round: to
        measure it further would cost more than the others together.

        Args:
            times: Those of all rounds so far, of dropped candidates too.
        """
        # What is dropped as slower may vary by more than what still races.
        far = {
            standing.candidate.name
            for standing in self.standings
            if standing.outcome in _OF_OTHER_NOISE
        }
        variance, degrees = _noise({name: of for name, of in times.items() if name not in far})
        quantile = student_quantile(degrees, 1 - self._level / 2) if degrees >= 1 else math.inf
        reach, racing = quantile * math.sqrt(variance), self.racing
        for name in racing:
            self._standings[name] = self._standing(name, times, reach)
        least = math.log1p(-self._rules.margin)
        for name in sorted(racing & self.racing):
            rival = self._fastest_alternative(name, times)
            if rival and _change(times, name, rival, reach).low > least:
                self.drop(name, TrialOutcome.OUTRUN)

    def finalists(self) -> tuple[Candidate, ...]:
        """What is checked: those whose measured gain is at least the margin, the largest first.

        Of alternatives only the fastest is among them.
        """
        able = [
            standing
            for standing in self.standings
            if standing.outcome is None and standing.gain.value >= self._rules.margin
        ]
        chosen: list[Candidate] = []
        for standing in sorted(able, key=lambda standing: standing.gain.value, reverse=True):
            if not any(standing.candidate.is_alternative_to(other) for other in chosen):
                chosen.append(standing.candidate)
        return tuple(chosen)

    def _standing(self, name: str, times: Times, reach: float) -> RaceStanding:
        candidate, change = self._standings[name].candidate, _change(times, name, PRESENT, reach)
        outcome = None
        if change.value > math.log(FAR_SLOWER):
            outcome = TrialOutcome.WORSE
        elif change.low > math.log1p(-self._rules.margin):
            outcome = TrialOutcome.WORSE if change.low > 0 else TrialOutcome.NO_GAIN
        num_shared = len(times.get(name, {}).keys() & times.get(PRESENT, {}).keys())
        return RaceStanding(candidate, gain_of(change), num_shared, outcome, change.high < 0)

    def _fastest_alternative(self, name: str, times: Times) -> str:
        """The fastest candidate in the race that sets the same variable; empty without one."""
        own = self._standings[name].candidate
        rivals = [
            other
            for other in self.racing
            if other != name
            and own.is_alternative_to(self._standings[other].candidate)
            and _change(times, name, other, 0.0).value > 0
        ]
        return min(rivals, key=lambda other: _change(times, other, PRESENT, 0.0).value, default="")


def gain_of(change: Estimate) -> Estimate:
    """The share of time that is saved by a change of the logarithm of the time."""
    return Estimate(-math.expm1(change.value), _share(change.high), _share(change.low))


def _share(change: float) -> float:
    """A gain of a bound of a change; an open bound stays open."""
    return -change if math.isinf(change) else -math.expm1(change)


def _change(times: Times, one: str, other: str, reach: float) -> Estimate:
    """The mean difference of two settings over the rounds of both, with its bounds.

    Args:
        times: Those of all settings.
        one: The setting that is held against the other.
        other: The other one.
        reach: Quantile times the standard deviation of one launch; infinite where unknown.
    """
    own, others = times.get(one, {}), times.get(other, {})
    shared = sorted(own.keys() & others.keys())
    if not shared:
        return Estimate(NAN, NAN, NAN)
    value = float(np.mean([own[number] - others[number] for number in shared]))
    # Infinity times the zero of identical times is no number.
    half = reach * math.sqrt(2 / len(shared)) if reach else 0.0
    half = math.inf if math.isnan(half) else half
    return Estimate(value, value - half, value + half)


def _noise(times: Times) -> tuple[float, float]:
    """The variance of one launch around setting plus round, and its degrees of freedom."""
    places = [
        (name, number, value)
        for name, by_round in times.items()
        for number, value in by_round.items()
    ]
    names = sorted({name for name, _, _ in places})
    rounds = sorted({number for _, number, _ in places})
    design = np.zeros((len(places), len(names) + len(rounds)))
    for row, (name, number, _) in enumerate(places):
        design[row, names.index(name)] = 1
        design[row, len(names) + rounds.index(number)] = 1
    values = np.array([value for _, _, value in places])
    fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    degrees = len(values) - int(rank)
    if degrees < 1:
        return 0.0, 0.0
    return float(np.square(values - design @ fitted).sum()) / degrees, float(degrees)
