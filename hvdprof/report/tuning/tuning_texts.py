"""The texts of a tuning, which the terminal and Markdown share.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.results.tuning import Estimate, TrialOutcome, Tuning

_WIDEST_POINTS = 200.0
_NOT_RACED = (TrialOutcome.NOT_TRIED,)


@dataclass(frozen=True, slots=True)
class TuningTable:
    """Rows whose first cell is a setting and whose last one is a ``TrialOutcome``."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    about: str = ""


def what_to_set(tuning: Tuning) -> Iterator[tuple[str, str]]:
    """What stands below the verdict to be copied, each with what it is for; empty for the first."""
    lines = {"": tuning.line, "Resume with": tuning.next_line, "In the script": tuning.in_code}
    yield from ((label, text) for label, text in lines.items() if text)


def job_of(tuning: Tuning) -> str:
    """The training and the number of ranks."""
    return f"{shlex.join(tuning.command)} on {tuning.num_ranks} ranks"


def again(tuning: Tuning) -> str:
    """Where the result is saved."""
    return (
        f"{units.seconds(tuning.elapsed_s, whole=True)}, saved in {tuning.folder}. "
        f"Show it again: hvdprof tune {shlex.quote(tuning.folder)}"
    )


def tuning_tables(tuning: Tuning) -> Iterator[TuningTable]:
    """What raced, with how its intervals are meant, and what was measured anew."""
    raced = tuple(
        (
            trial.candidate.name,
            gain_text(trial.candidate.predicted),
            gain_text(trial.gain),
            str(trial.num_rounds),
            str(trial.outcome),
        )
        for trial in tuning.trials
        if trial.outcome not in _NOT_RACED
    )
    if raced:
        about = (
            "Gains are shares of the step time, per sample. Intervals of the race hold together "
            f"with {units.percent_limit(tuning.confidence)}; less than "
            f"{units.percent_limit(tuning.margin)} does not matter."
        )
        head = ("setting", "predicted gain", "measured gain", "rounds", "outcome")
        yield TuningTable("Tried", head, raced, about)
    checked = tuple(
        (
            " + ".join(check.names),
            gain_text(check.gain),
            str(check.num_repeats),
            str(TrialOutcome.CONFIRMED if check.is_confirmed else TrialOutcome.NOT_CONFIRMED),
        )
        for check in tuning.checks
    )
    if checked:
        yield TuningTable("Checked anew", ("setting", "gain", "launches", "outcome"), checked)


def tuning_lists(tuning: Tuning) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Why settings were proposed, how well gains were predicted, and what was not tried."""
    lists = (("Why", _reasons), ("Predictions", _score), ("Not tried", _untried))
    for title, lines in lists:
        if found := tuple(lines(tuning)):
            yield title, found


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
            one = trial.candidate
            gain = f" Predicted gain: {gain_text(one.predicted)}." if one.predicted else ""
            why = f" {one.why.rstrip('.')}." if one.why and tuning.next_line else ""
            yield f"{one.name}: {trial.reason.rstrip('.')}.{gain}{why}"
    yield from tuning.notes


def _change(change: Estimate) -> str:
    value, low, high = (100 * share for share in (change.value, change.low, change.high))
    if math.isnan(low):
        return f"{value:+z.1f} %"
    return f"{value:+z.1f} % ({low:+z.1f} to {high:+z.1f})"
