"""The check after a race: the best candidate, and all winners together, against the present.

Winners that are used together may gain less than their sum, or more. Tested in
``tests/analyze/tune/test_racing.py``.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.launch_spread import spread
from hvdprof.analyze.tune.confirmation import CheckRules, Confirmation, confirmation
from hvdprof.analyze.tune.racing import Times, gain_of
from hvdprof.model.tuning import Candidate, Estimate
from hvdprof.rundir.comparison_looks import comparison_looks

BEST, TOGETHER = "best", "together"


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
