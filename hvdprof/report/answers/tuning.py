"""A tuning: what to set, what was tried, how well gains were predicted; as a page and as JSON."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from hvdprof import units
from hvdprof.model.results.tuning import TUNING_SCHEMA_VERSION, Estimate, TrialOutcome, Tuning
from hvdprof.report.answer import Answer
from hvdprof.report.format_names import TuningFormat
from hvdprof.report.json_values import JsonObject, json_value
from hvdprof.report.sections.section import Action, Head, Page, Section, Tone

_NOT_RACED = (TrialOutcome.NOT_TRIED,)
_TONES: dict[TrialOutcome, Tone] = {
    TrialOutcome.CONFIRMED: "good",
    TrialOutcome.WORSE: "bad",
    TrialOutcome.FAILED: "bad",
    TrialOutcome.NOT_CONFIRMED: "caution",
}

SUFFIXES: dict[str, TuningFormat] = {
    ".json": TuningFormat.JSON,
    ".html": TuningFormat.HTML,
    ".md": TuningFormat.MARKDOWN,
    ".txt": TuningFormat.TERMINAL,
}
"""The ends of file names that choose a format."""


def tuning_answer(tuning: Tuning) -> Answer:
    """The result, to be written in every ``TuningFormat``."""
    return Answer(partial(_page, tuning), partial(_object, tuning), name="hvdprof tune")


def _object(tuning: Tuning) -> JsonObject:
    """The keys are listed in docs/howto/tune.md."""
    content: JsonObject = {"schema_version": TUNING_SCHEMA_VERSION}
    return content | {name: json_value(value) for name, value in asdict(tuning).items()}


def _page(tuning: Tuning) -> Page:
    """The verdict in line 1, the command to copy in 2."""
    to_set = {"": tuning.line, "Resume with": tuning.next_line, "In the script": tuning.in_code}
    lists = {"Why": _reasons, "Predictions": _score, "Not tried": _untried}
    found = {title: tuple(lines(tuning)) for title, lines in lists.items()}
    verdict = Section(
        verdict=tuning.sentence,
        is_verdict_whole=True,
        actions=tuple(Action(label, command=text) for label, text in to_set.items() if text),
    )
    job = Section(
        caveat=tuning.caveat,
        caption=f"{shlex.join(tuning.command)} on {tuning.num_ranks} ranks",
        sentences=(f"Present setting: {tuning.present}", _again(tuning)),
    )
    of_lists = (Section(title, sentences=lines) for title, lines in found.items() if lines)
    return Page((verdict, job, *_tables(tuning), *of_lists))


def _again(tuning: Tuning) -> str:
    return (
        f"{units.seconds(tuning.elapsed_s, whole=True)}, saved in {tuning.folder}. "
        f"Show it again: hvdprof tune {shlex.quote(tuning.folder)}"
    )


def _tables(tuning: Tuning) -> Iterator[Section]:
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
        yield _table("Tried", ("predicted gain", "measured gain", "rounds"), raced, about)
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
        yield _table("Checked anew", ("gain", "launches"), checked)


def _table(
    title: str, numbers: tuple[str, ...], rows: tuple[tuple[str, ...], ...], about: str = ""
) -> Section:
    """Rows whose first cell is a setting and whose last one is a ``TrialOutcome``."""
    heads = (Head("setting", is_text=True), *map(Head, numbers), Head("outcome", is_outcome=True))
    tones = tuple(_TONES.get(TrialOutcome(row[-1]), "") for row in rows)
    return Section(title, heads=heads, rows=rows, note=about, tones=tones)


def gain_text(gain: Estimate | None) -> str:
    """A gain with its interval: ``41.2 % (38.1 to 44.0)``; ``-`` without one.

    A step that takes more than twice as long is ``3.4 x the time (3.1 to 3.8)``. ``CI unknown``
    where an end is open, as after one round.
    """
    if gain is None:
        return units.MISSING
    is_known = math.isfinite(gain.high - gain.low)
    if gain.value < -1:
        ends = f"{1 - gain.high:.1f} to {1 - gain.low:.1f}" if is_known else "CI unknown"
        return f"{1 - gain.value:.1f} x the time ({ends})"
    value, low, high = (100 * share for share in (gain.value, gain.low, gain.high))
    ends = f"{low:.1f} to {high:.1f}" if is_known else "CI unknown"
    return f"{value:.1f} % ({ends})"


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
