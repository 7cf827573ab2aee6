"""The check after a race: the best candidate, and all winners together, against the present.

Winners that are used together may gain less than their sum, or more. Tested in
``tests/analyze/tune/test_racing.py``.
"""

from collections.abc import Mapping, Sequence

from hvdprof.analyze.tune.confirmation import CheckRules, Confirmation, confirmation
from hvdprof.analyze.tune.racing import Times
from hvdprof.model.tuning import Candidate
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

    def is_decided(self, times: Times, repeat: int) -> bool:
        """Whether it is looked at after this repeat, and more could change nothing."""
        return repeat in self.looks and all(
            one.is_confirmed or one.is_refuted for one in self.confirmations(times).values()
        )

    def winner(self, times: Times) -> str | None:
        """The confirmed entry with the larger gain; None without any.

        All together win only where they gain the margin more than the best one: what gains nothing
        need not be set.
        """
        found = self.confirmations(times)
        confirmed = [name for name, one in found.items() if one.is_confirmed]
        if len(confirmed) < 2:
            return confirmed[0] if confirmed else None
        more = found[TOGETHER].gain.value - found[BEST].gain.value
        return TOGETHER if more >= self._rules.margin else BEST


def joined(candidates: Sequence[Candidate]) -> Candidate:
    """Several candidates as one that sets what all of them set."""
    environment: dict[str, str] = {}
    options: dict[str, str | int | float | bool] = {}
    for one in candidates:
        environment |= one.environment
        options |= one.options
    return Candidate(
        name=" + ".join(one.name for one in candidates),
        environment=environment,
        options=options,
        arguments=tuple(word for one in candidates for word in one.arguments),
        changes_numerics=any(one.changes_numerics for one in candidates),
    )
