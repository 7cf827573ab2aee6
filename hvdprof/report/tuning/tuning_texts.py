"""The texts of a tuning, which the terminal and Markdown share.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.tuning import Check, Estimate, Trial, TrialOutcome, Tuning

HEAD = ("setting", "predicted gain", "measured gain", "rounds", "outcome")
CHECK_HEAD = ("setting", "gain", "launches", "outcome")

_WIDEST_POINTS = 200.0
_NOT_RACED = (TrialOutcome.NOT_TRIED,)


@dataclass(frozen=True, slots=True)
class TrialLine:
    """A setting that raced, as a row of ``HEAD``."""

    name: str
    predicted: str
    measured: str
    rounds: str
    outcome: str


@dataclass(frozen=True, slots=True)
class CheckLine:
    """What was measured anew, as a row of ``CHECK_HEAD``."""

    name: str
    gain: str
    launches: str
    outcome: str


@dataclass(frozen=True, slots=True)
class TuningTexts:
    """A tuning in words.

    Attributes:
        sentence: The verdict.
        line: The command to copy; empty where nothing pays.
        in_code: What to write in the script in place of its variables; empty without any.
        caveat: What limits the verdict.
        job: The training and the number of ranks.
        present: The verdict on the present setting.
        trials: What raced.
        checks: What was measured anew.
        about: How the intervals are meant.
        reasons: Why settings are proposed, failed, or were not confirmed.
        score: How well gains were predicted.
        untried: What was not tried, and why.
        again: Where the result is saved.
    """

    sentence: str
    line: str
    in_code: str
    caveat: str
    job: str
    present: str
    trials: tuple[TrialLine, ...]
    checks: tuple[CheckLine, ...]
    about: str
    reasons: tuple[str, ...]
    score: tuple[str, ...]
    untried: tuple[str, ...]
    again: str


def tuning_texts(tuning: Tuning) -> TuningTexts:
    """The texts of a tuning."""
    raced = [trial for trial in tuning.trials if trial.outcome not in _NOT_RACED]
    return TuningTexts(
        sentence=tuning.sentence,
        line=tuning.line,
        in_code=f"In the script: {tuning.in_code}" if tuning.in_code else "",
        caveat=tuning.caveat,
        job=f"{shlex.join(tuning.command)} on {tuning.num_ranks} ranks",
        present=tuning.present,
        trials=tuple(_trial(trial) for trial in raced),
        checks=tuple(_check(check) for check in tuning.checks),
        about=(
            "Gains are shares of the step time, per sample. Intervals of the race hold together "
            f"with {units.percent_limit(tuning.confidence)}; less than "
            f"{units.percent_limit(tuning.margin)} does not matter."
        ),
        reasons=tuple(_reasons(tuning)),
        score=tuple(_score(tuning)),
        untried=tuple(_untried(tuning)),
        again=(
            f"{units.seconds(tuning.elapsed_s, whole=True)}, saved in {tuning.folder}. "
            f"Show it again: hvdprof tune {shlex.quote(tuning.folder)}"
        ),
    )


def gain_text(gain: Estimate | None) -> str:
    """A gain with its interval: ``41.2 % (38.1 to 44.0)``; ``-`` without one.

    A step that takes more than twice as long is ``3.4 x the time``. An interval wider than all that
    can be gained says nothing and is omitted.
    """
    if gain is None:
        return units.MISSING
    if gain.value < -1:
        return f"{1 - gain.value:.1f} x the time"
    value, low, high = (100 * share for share in (gain.value, gain.low, gain.high))
    if not high - low < _WIDEST_POINTS:
        return f"{value:.1f} %"
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def _trial(trial: Trial) -> TrialLine:
    return TrialLine(
        trial.candidate.name,
        gain_text(trial.candidate.predicted),
        gain_text(trial.gain),
        str(trial.num_rounds),
        trial.outcome,
    )


def _check(check: Check) -> CheckLine:
    outcome = TrialOutcome.CONFIRMED if check.is_confirmed else TrialOutcome.NOT_CONFIRMED
    return CheckLine(
        " + ".join(check.names), gain_text(check.gain), str(check.num_repeats), str(outcome)
    )


def _reasons(tuning: Tuning) -> Iterator[str]:
    """Why each was tried, and why some failed or were not confirmed."""
    for trial in tuning.trials:
        if trial.outcome in _NOT_RACED:
            continue
        parts = [trial.candidate.why.rstrip(".")] if trial.candidate.why else []
        if trial.reason:
            parts.append(f"{trial.outcome}: {trial.reason.rstrip('.')}")
        if trial.loss_change is not None:
            parts.append(f"final loss {_change(trial.loss_change)}")
        if parts:
            yield f"{trial.candidate.name}: {'. '.join(parts)}."
    for check in tuning.checks:
        if check.reason:
            yield f"{' + '.join(check.names)}, in the check: {check.reason.rstrip('.')}."


def _score(tuning: Tuning) -> Iterator[str]:
    if tuning.score is not None and tuning.score.num_predicted:
        yield tuning.score.sentence
    for trial in tuning.trials:
        if trial.candidate.not_predicted and trial.outcome not in _NOT_RACED:
            yield f"{trial.candidate.name}: not predicted. {trial.candidate.not_predicted}"


def _untried(tuning: Tuning) -> Iterator[str]:
    for trial in tuning.trials:
        if trial.outcome in _NOT_RACED:
            yield f"{trial.candidate.name}: {trial.reason.rstrip('.')}."
    yield from tuning.notes


def _change(change: Estimate) -> str:
    value, low, high = (100 * share for share in (change.value, change.low, change.high))
    if math.isnan(low):
        return f"{value:+z.1f} %"
    return f"{value:+z.1f} % ({low:+z.1f} to {high:+z.1f})"
