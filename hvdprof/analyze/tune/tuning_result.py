"""From a race and its check to the trials, the checks and the verdict of a tuning."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hvdprof import units
from hvdprof.analyze.tune.finals import BEST, TOGETHER, Finals, LaunchCount, Raced
from hvdprof.analyze.tune.racing import RaceStanding
from hvdprof.model.results.tuning import Candidate, Check, Estimate, Trial, TrialOutcome

WIDEST_LIMIT = 0.1
"""Without a bound below this share of the step time, the verdict is undecided."""

_ORDER = tuple(TrialOutcome)


def checks(raced: Raced) -> tuple[Check, ...]:
    """What was measured anew, in its order."""
    if raced.finals is None:
        return ()
    found = raced.finals.confirmations(raced.check_times)
    return tuple(
        Check(
            names=tuple(entry.name for entry in raced.finals.entries[name]),
            gain=_known(one.gain),
            num_repeats=one.num_repeats,
            is_confirmed=one.is_confirmed and name not in raced.given_up,
            reason=raced.check_reasons.get(name, ""),
            loss_change=raced.check_losses.get(name),
        )
        for name, one in found.items()
    )


def trials(raced: Raced) -> tuple[Trial, ...]:
    """Every candidate with its outcome: the confirmed first, then by gain."""
    found = [_trial(raced, standing) for standing in raced.standings] + list(raced.untried)
    return tuple(
        sorted(found, key=lambda trial: (_ORDER.index(TrialOutcome(trial.outcome)), -_value(trial)))
    )


def beyond(raced: Raced) -> float | None:
    """The largest gain that is not excluded for what raced; None where there is no such limit.

    A candidate that was checked alone has the bound of its check where that is lower. What is
    slower than the present setting gains nothing, and what fails cannot be used.
    """
    highs = {
        setting.candidate.name: 0.0 if setting.outcome is TrialOutcome.WORSE else setting.gain.high
        for setting in raced.tried
    }
    if raced.finals is not None and BEST not in raced.given_up:
        gain = raced.finals.confirmations(raced.check_times)[BEST].gain
        (best,) = raced.finals.entries[BEST]
        if not math.isnan(gain.high):
            highs[best.name] = min(gain.high, highs.get(best.name, math.inf))
    limit = max([0.0, *highs.values()])
    return limit if highs and math.isfinite(limit) else None


def sentence(raced: Raced, line: str, status: str) -> str:
    """The verdict in at most two sentences.

    Args:
        raced: The race and its check.
        line: What is named, as a line to copy.
        status: ``done``, ``interrupted`` or ``failed``.
    """
    tried, winner = raced.tried, raced.winner
    if winner is not None and raced.finals is not None:
        gain = raced.finals.confirmations(raced.check_times)[winner].gain
        return (
            f"Set {line}: step time {_percent(-gain.value)} "
            f"(95 % CI {_percent(-gain.high)} to {_percent(-gain.low)}), "
            f"throughput {_percent(1 / (1 - gain.value) - 1)}."
        )
    if not raced.standings:
        return _nothing_raced(raced)
    if not tried:
        return f"Nothing is known: {_no_result(raced)}."
    if raced.present_failed:
        return f"Undecided: the present setting failed: {raced.present_failed}."
    if status != "done":
        return f"Undecided: {_interrupted(raced, tried)}"
    limit = beyond(raced)
    number = units.counted(len(tried), "setting")
    if limit is None:
        return f"No gain shown by {number}; too few launches to state a limit."
    if all(setting.outcome is TrialOutcome.WORSE for setting in tried):
        return f"Nothing to gain: {number} tried, none faster than the present one."
    held = "beyond noise" if raced.finals is None else "confirmed by the check"
    if limit > WIDEST_LIMIT:
        return (
            f"Undecided: no gain of {number} is {held}, and gains of up to "
            f"{units.percent(limit)} of the step time are not excluded. Measure on a less busy "
            "machine, or with longer launches."
        )
    return (
        f"Nothing to gain beyond {units.percent(limit)} of the step time: no gain of "
        f"{number} is {held}."
    )


def _nothing_raced(raced: Raced) -> str:
    if raced.too_long_s is not None:
        time = f"the shortest race takes about {units.duration(raced.too_long_s)}"
        return f"Nothing was tried: {time}, more than the budget leaves. {_most_promising(raced)}"
    if not raced.untried:
        return "Nothing to try: no setting of this job can save as much as matters."
    names = ", ".join(trial.candidate.name for trial in raced.untried)
    reasons = "; ".join(dict.fromkeys(trial.reason for trial in raced.untried))
    return f"Nothing was tried. Left out: {names} ({reasons})."


def _most_promising(raced: Raced) -> str:
    """The largest predicted gain of what had no time to race."""
    known = {
        trial.candidate.name: trial.candidate.predicted
        for trial in raced.untried
        if trial.candidate.predicted is not None
    }
    best = max(known, key=lambda name: known[name].value, default="")
    if not best or known[best].value <= 0:
        return f"No gain is predicted for {units.counted(len(raced.untried), 'setting')}."
    gain = known[best]
    ends = units.percent_interval(gain.value, gain.low, gain.high)
    return f"Largest predicted gain: {best}, {ends} of the step time."


def _no_result(raced: Raced) -> str:
    """Why no candidate has a result."""
    if raced.present_failed:
        return f"the present setting failed: {raced.present_failed}"
    is_all = len(raced.failed) == len(raced.standings)
    return "every setting failed" if is_all else "no round of the race ended"


def _interrupted(raced: Raced, tried: Sequence[RaceStanding]) -> str:
    known = [
        setting
        for setting in tried
        if setting.outcome is None and not math.isnan(setting.gain.value)
    ]
    best = max(known, key=lambda setting: setting.gain.value, default=None)
    if best is None or best.gain.value < raced.margin:
        return "the tuning ended before its race did."
    return (
        f"the tuning ended before its check did. {best.candidate.name} leads the race with "
        f"{units.percent(best.gain.value)} of the step time."
    )


def caveats(raced: Raced) -> Iterator[str]:
    """What limits the verdict."""
    if raced.finals is not None and raced.winner is not None:
        of_winner = next(check for check in checks(raced) if check.names == _names(raced.named))
        if any(candidate.changes_numerics for candidate in raced.named):
            yield _of_loss(of_winner)
        yield from _failed_launches(raced, raced.winner)
        if raced.present_failed:
            yield f"The present setting failed: {raced.present_failed}."
    if raced.failed:
        yield f"{', '.join(_names(raced.failed))} failed."
    if TOGETHER in raced.given_up:
        yield f"All settings together failed{_because(raced.check_reasons.get(TOGETHER, ''))}."


def _failed_launches(raced: Raced, winner: str) -> Iterator[str]:
    """What is named, and failed in some of its launches."""
    reasons = [raced.check_reasons.get(winner, "")]
    launches = raced.check_launches.get(winner, LaunchCount())
    for candidate in raced.named:
        launches += raced.launches.get(candidate.name, LaunchCount())
        reasons.append(raced.reasons.get(candidate.name, ""))
    if launches.num_failed:
        reason = next(filter(None, reasons), "")
        yield (
            f"{launches.num_failed} of {units.counted(launches.num, 'launch')} "
            f"of {' + '.join(_names(raced.named))} failed{_because(reason)}."
        )


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _of_loss(check: Check) -> str:
    name = " + ".join(check.names)
    if check.loss_change is None:
        return f"{name} changes the arithmetic, and the script recorded no loss to compare."
    change = check.loss_change
    return (
        f"{name} changes the arithmetic: final loss {_percent(change.value)} "
        f"({_percent(change.low)} to {_percent(change.high)})."
    )


def _trial(raced: Raced, standing: RaceStanding) -> Trial:
    name = standing.candidate.name
    outcome, reason = standing.outcome, ""
    if outcome is None:
        outcome, reason = _outcome_of_check(raced, standing.candidate)
    return Trial(
        candidate=standing.candidate,
        outcome=str(outcome),
        gain=_known(standing.gain),
        num_rounds=standing.num_rounds,
        reason=reason or raced.reasons.get(name, ""),
        loss_change=raced.losses.get(name),
    )


def _outcome_of_check(raced: Raced, candidate: Candidate) -> tuple[TrialOutcome, str]:
    """What came of a candidate that was not dropped."""
    if candidate in raced.named:
        return TrialOutcome.CONFIRMED, ""
    if raced.finals is None or candidate not in _checked(raced.finals):
        return TrialOutcome.UNDECIDED, ""
    if candidate in raced.failed:
        return TrialOutcome.FAILED, raced.check_reasons.get(BEST, "")
    if TOGETHER in raced.given_up and candidate not in raced.finals.entries[BEST]:
        return TrialOutcome.UNDECIDED, "all settings together failed"
    if raced.winner == BEST:
        return TrialOutcome.NOT_CONFIRMED, _beside_best(raced, raced.finals)
    return TrialOutcome.NOT_CONFIRMED, ""


def _beside_best(raced: Raced, finals: Finals) -> str:
    """Why the others are not named beside the best one."""
    added, best = finals.added(raced.check_times), raced.named[0].name
    if added.high < raced.margin:
        return f"adds less than {units.percent_limit(raced.margin)} to {best}"
    return f"no gain beside {best} is beyond noise"


def _checked(finals: Finals) -> list[Candidate]:
    return [candidate for entry in finals.entries.values() for candidate in entry]


def _names(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(candidate.name for candidate in candidates)


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
    return f"{100 * ratio:+z.1f} %"
