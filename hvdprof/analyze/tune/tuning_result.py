"""From a race and its check to the trials, the checks and the verdict of a tuning.

Tested in ``tests/analyze/tune/test_tuning_result.py``.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hvdprof import units
from hvdprof.analyze.tune.finals import BEST, Finals
from hvdprof.analyze.tune.racing import Standing, Times
from hvdprof.model.tuning import Candidate, Check, Estimate, Trial, TrialOutcome

WIDEST_LIMIT = 0.1
"""Without a bound below this share of the step time, the verdict is undecided."""

_ORDER = tuple(TrialOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What a race and its check measured.

    Attributes:
        margin: Smallest gain that matters.
        standings: The candidates at the end of the race.
        untried: Trials of what did not race.
        reasons: Why candidates failed in the race, by name.
        losses: Changes of the final loss in the race, by name.
        finals: The check; None where nothing reached it.
        check_times: The times of the check.
        check_reasons: Why entries failed in the check, by name.
        check_losses: Changes of the final loss in the check, by name.
    """

    margin: float
    standings: tuple[Standing, ...] = ()
    untried: tuple[Trial, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, Estimate] = field(default_factory=dict)
    finals: Finals | None = None
    check_times: Times = field(default_factory=dict)
    check_reasons: Mapping[str, str] = field(default_factory=dict)
    check_losses: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def winner(self) -> str | None:
        """The entry of the check that is named; None where nothing pays."""
        return None if self.finals is None else self.finals.winner(self.check_times)

    @property
    def named(self) -> tuple[Candidate, ...]:
        """The candidates that are named."""
        winner = self.winner
        return () if self.finals is None or winner is None else self.finals.entries[winner]


def checks(raced: Raced) -> tuple[Check, ...]:
    """What was measured anew, in its order."""
    if raced.finals is None:
        return ()
    found = raced.finals.confirmations(raced.check_times)
    return tuple(
        Check(
            names=tuple(one.name for one in raced.finals.entries[name]),
            gain=_known(one.gain),
            num_repeats=one.num_repeats,
            is_confirmed=one.is_confirmed,
            reason=raced.check_reasons.get(name, ""),
            loss_change=raced.check_losses.get(name),
        )
        for name, one in found.items()
    )


def trials(raced: Raced) -> tuple[Trial, ...]:
    """Every candidate with its outcome: the confirmed first, then by gain."""
    found = [_trial(raced, one) for one in raced.standings] + list(raced.untried)
    return tuple(
        sorted(found, key=lambda one: (_ORDER.index(TrialOutcome(one.outcome)), -_value(one)))
    )


def beyond(raced: Raced) -> float | None:
    """The largest gain that is not excluded for what raced; None where nothing did.

    A candidate that was checked alone has the bound of its check where that is lower.
    """
    highs = {one.candidate.name: one.gain.high for one in raced.standings if one.num_rounds}
    if raced.finals is not None:
        gain = raced.finals.confirmations(raced.check_times)[BEST].gain
        (best,) = raced.finals.entries[BEST]
        if not math.isnan(gain.high):
            highs[best.name] = min(gain.high, highs.get(best.name, math.inf))
    return max(0.0, *highs.values()) if highs else None


def sentence(raced: Raced, line: str, status: str) -> str:
    """The verdict in at most two sentences.

    Args:
        raced: The race and its check.
        line: What is named, as a line to copy.
        status: ``done`` or ``interrupted``.
    """
    tried = [one for one in raced.standings if one.num_rounds]
    winner = raced.winner
    if winner is not None and raced.finals is not None:
        gain = raced.finals.confirmations(raced.check_times)[winner].gain
        return (
            f"Set {line}: step time {_percent(-gain.value)} "
            f"(95 % CI {_percent(-gain.high)} to {_percent(-gain.low)}), "
            f"throughput {_percent(1 / (1 - gain.value) - 1)}."
        )
    if not raced.standings:
        return "Nothing to try: no setting of this job can save as much as matters."
    if not tried:
        why = "every setting failed" if raced.reasons else "no round of the race ended"
        return f"Nothing is known: {why}."
    if status != "done":
        return f"Undecided: {_interrupted(raced, tried)}"
    limit = beyond(raced)
    number = units.counted(len(tried), "setting")
    if limit is None or limit == math.inf:
        return f"No gain shown by {number}; too few launches to state a limit."
    if limit > WIDEST_LIMIT:
        return (
            f"Undecided: no gain of {number} is beyond noise, and gains of up to "
            f"{units.percent(limit)} of the step time are not excluded. Measure on a less busy "
            "machine, or with longer launches."
        )
    return (
        f"Nothing to gain beyond {units.percent(limit)} of the step time: no gain of "
        f"{number} is beyond noise."
    )


def _interrupted(raced: Raced, tried: Sequence[Standing]) -> str:
    known = [one for one in tried if one.outcome is None and not math.isnan(one.gain.value)]
    best = max(known, key=lambda one: one.gain.value, default=None)
    if best is None or best.gain.value < raced.margin:
        return "the tuning ended before its race did."
    return (
        f"the tuning ended before its check did. {best.candidate.name} leads the race with "
        f"{units.percent(best.gain.value)} of the step time."
    )


def caveats(raced: Raced) -> Iterator[str]:
    """What limits the verdict."""
    if raced.finals is not None and raced.winner is not None:
        of_winner = next(one for one in checks(raced) if one.names == _names(raced.named))
        if any(one.changes_numerics for one in raced.named):
            yield _of_loss(of_winner)
    failed = [one for one in raced.standings if one.outcome is TrialOutcome.FAILED]
    if failed:
        yield f"{', '.join(one.candidate.name for one in failed)} failed."


def _of_loss(check: Check) -> str:
    name = " + ".join(check.names)
    if check.loss_change is None:
        return f"{name} changes the arithmetic, and the script recorded no loss to compare."
    change = check.loss_change
    return (
        f"{name} changes the arithmetic: final loss {_percent(change.value)} "
        f"({_percent(change.low)} to {_percent(change.high)})."
    )


def _trial(raced: Raced, standing: Standing) -> Trial:
    name = standing.candidate.name
    outcome, reason = standing.outcome, raced.reasons.get(name, "")
    if outcome is None:
        outcome, reason = _outcome_of_check(raced, standing.candidate)
    return Trial(
        candidate=standing.candidate,
        outcome=str(outcome),
        gain=_known(standing.gain),
        num_rounds=standing.num_rounds,
        reason=reason,
        loss_change=raced.losses.get(name),
    )


def _outcome_of_check(raced: Raced, candidate: Candidate) -> tuple[TrialOutcome, str]:
    """What came of a candidate that was not dropped."""
    if candidate in raced.named:
        return TrialOutcome.CONFIRMED, ""
    if raced.finals is None or candidate not in _checked(raced.finals):
        return TrialOutcome.UNDECIDED, ""
    if raced.named:
        less = units.percent_limit(raced.margin)
        return TrialOutcome.NOT_CONFIRMED, f"adds less than {less} to {raced.named[0].name}"
    return TrialOutcome.NOT_CONFIRMED, ""


def _checked(finals: Finals) -> list[Candidate]:
    return [one for entry in finals.entries.values() for one in entry]


def _names(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(one.name for one in candidates)


def _known(gain: Estimate) -> Estimate | None:
    """A gain with its ends, NaN where they are open; None where there is none."""
    if math.isnan(gain.value):
        return None
    return replace(gain, low=_finite(gain.low), high=_finite(gain.high))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _value(trial: Trial) -> float:
    return -math.inf if trial.gain is None else trial.gain.value


def _percent(ratio: float) -> str:
    return f"{100 * ratio:+.1f} %"
