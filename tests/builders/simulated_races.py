"""Races whose true gains are known: from the first round to the named setting, without ranks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hvdprof.analyze.tune.finals import Finals
from hvdprof.analyze.tune.racing import PRESENT, Race, RaceRules, RaceStanding
from hvdprof.model.results.tuning import Candidate


@dataclass(frozen=True)
class Simulated:
    """A race that has ended.

    Attributes:
        named: The candidates that are named; empty where nothing pays.
        standings: Those of the race.
        num_launches: Launches of the race and the check together.
        gain: The true gain of what is named.
        measured: Its measured gain with its interval; None where nothing is named.
    """

    named: tuple[str, ...]
    standings: tuple[RaceStanding, ...]
    num_launches: int
    gain: float
    measured: tuple[float, float, float] | None


@dataclass(frozen=True)
class Noise:
    """Launches differ by ``spread``, normally or with the tails of Student's t of 4 degrees.

    ``shared`` is the spread of the rounds, which all settings of a round have in common.
    """

    spread: float
    shared: float = 0.0
    heavy_tails: bool = False

    def of_launch(self, random: np.random.Generator) -> float:
        """The noise of one launch."""
        if self.heavy_tails:
            return self.spread * float(random.standard_t(4)) / math.sqrt(2)
        return self.spread * float(random.normal())


def candidates(num: int) -> list[Candidate]:
    """So many candidates; the first two are alternatives."""
    return [
        Candidate(name=f"c{place}", environment={f"V{max(place, 1)}": str(place)})
        for place in range(num)
    ]


@dataclass
class _Launches:
    """Launches of settings with true effects, round by round."""

    random: np.random.Generator
    noise: Noise
    effects: dict[str, float]
    times: dict[str, dict[int, float]] = field(default_factory=dict)
    num: int = 0

    def run(self, names: Iterable[str], number: int) -> None:
        """One launch of each in a round."""
        of_round = self.noise.shared * float(self.random.normal())
        for name in names:
            self.num += 1
            self.times.setdefault(name, {})[number] = (
                self.effects[name] + of_round + self.noise.of_launch(self.random)
            )


def simulated_race(
    random: np.random.Generator,
    gains: Sequence[float],
    noise: Noise,
    *,
    margin: float = 0.02,
    most_rounds: int = 6,
    most_repeats: int = 10,
) -> Simulated:
    """One race of candidates with true gains, and the check of its finalists.

    Gains of candidates that are used together add up on the logarithmic scale.
    """
    given = candidates(len(gains))
    effects = {one.name: math.log1p(-gain) for one, gain in zip(given, gains, strict=True)}
    race = Race(given, RaceRules(margin, most_rounds))
    raced = _Launches(random, noise, {PRESENT: 0.0, **effects})
    for number in range(1, most_rounds + 1):
        raced.run((PRESENT, *sorted(race.racing)), number)
        race.look(raced.times)
        if race.is_decided:
            break
    finalists = race.finalists()
    if not finalists:
        return Simulated((), race.standings, raced.num, 0.0, None)
    finals = Finals(finalists, margin=margin, most_repeats=most_repeats)
    joined = {
        name: sum(effects[one.name] for one in entry) for name, entry in finals.entries.items()
    }
    checked = _Launches(random, noise, {PRESENT: 0.0, **joined})
    for repeat in range(1, most_repeats + 1):
        checked.run(checked.effects, repeat)
        if finals.is_decided(checked.times, repeat):
            break
    winner, num = finals.winner(checked.times), raced.num + checked.num
    if winner is None:
        return Simulated((), race.standings, num, 0.0, None)
    gain = finals.confirmations(checked.times)[winner].gain
    return Simulated(
        tuple(one.name for one in finals.entries[winner]),
        race.standings,
        num,
        -math.expm1(joined[winner]),
        (gain.value, gain.low, gain.high),
    )
