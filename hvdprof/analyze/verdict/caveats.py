"""The caveats of a verdict: what failed, other processes, evaluations, a light recording."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import as_sentence
from hvdprof.analyze.findings.cause_advice import explains
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.measured_launches import full_command, is_light
from hvdprof.analyze.verdict.busy_machine import wait_command
from hvdprof.analyze.verdict.evaluation_loss import evaluation_caveat
from hvdprof.analyze.verdict.failures import failure_sentence
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import PAUSE
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import FailedSegment, Run, RunAnalysis, Verdict
from hvdprof.model.tables.waterfall_tables import WATERFALL

CARRIED = (
    NoteCode.OTHER_LOAD,
    NoteCode.STEAL,
    NoteCode.OVERSUBSCRIBED,
    NoteCode.UNEQUAL_THREADS,
    NoteCode.UNSTEADY,
    NoteCode.FEW_STEPS,
)
"""Warnings of a run that hold for each number that is computed from its step times."""


def carried_caveats(analysis: RunAnalysis) -> tuple[Note, ...]:
    """What limits a forecast, a comparison or a tuning that rests on a run."""
    answer = analysis.verdict
    notes = [note for note in answer.caveats if note.code == NoteCode.PROVISIONAL]
    notes += [note for note in analysis.warning_notes if note.code in CARRIED]
    if answer.is_too_busy:
        cell = {"model": answer.model, "np": answer.np, "engine": answer.engine}
        busy = f"The machine was too busy to judge: {cell_setting(analysis.run, cell).load.text}."
        others = (note for note in notes if note.code != NoteCode.OTHER_LOAD)
        notes = [Note(NoteCode.TOO_BUSY, busy, value=wait_command(analysis.run)), *others]
    waterfall = analysis.table(WATERFALL.name).sort_values("share", ascending=False)
    for row in waterfall[(waterfall["term"] == PAUSE).to_numpy(dtype=bool)].to_dict("records")[:1]:
        if row["share"] >= SMALLEST_COST:
            name, share = cause_name(row), units.percent(row["share"])
            where = f"{share} of the step on {units.counted(int(row['np']), 'rank')}"
            text = f"{name[:1].upper()}{name[1:]} ({where}): step times contain these pauses."
            notes.append(Note(NoteCode.PAUSES, text))
    return tuple(notes)


def with_caveats(
    run: Run,
    answer: Verdict,
    failed: Sequence[FailedSegment],
    findings: pd.DataFrame,
    waterfall: pd.DataFrame,
) -> Verdict:
    """The verdict with the caveats of its run around its own.

    Args:
        run: The run that was measured.
        answer: The verdict on one of its cells.
        failed: The failed measurements of the run, first failure first.
        findings: FINDINGS of the run.
        waterfall: WATERFALL of the run.
    """
    before = (
        *failure_caveat(failed, answer, len(run.segments)),
        *evaluation_caveat(findings, answer),
        *_other_processes(run, answer, waterfall),
    )
    return replace(answer, caveats=(*before, *answer.caveats, *_light(run)))


def failure_caveat(
    failed: Sequence[FailedSegment], answer: Verdict, num_measured: int
) -> Iterator[Note]:
    """``2 of 28 measurements failed and are excluded: see Failed.``, or none.

    The reasons stand in the section Failed; one that leads the verdict is not counted again, and a
    verdict on no cell says by itself what failed.
    """
    if not failed or not answer.model:
        return
    lead = failure_sentence(failed, answer.model, answer.np, answer.engine)
    counted = sum(segment.is_counted for segment in failed)
    excluded = len(failed) - counted
    if lead and answer.parts.lead == lead and len(failed) == 1:
        if counted:
            yield Note(NoteCode.ENDED_EARLY, "Only steps before the failure count.", number=1)
        return
    parts = []
    if excluded:
        are = "is" if excluded == 1 else "are"
        parts.append(f"{excluded} of {num_measured} measurements failed and {are} excluded")
    if counted:
        of_all = "" if excluded else " measurement" if num_measured == 1 else " measurements"
        parts.append(
            f"{counted} of {num_measured}{of_all} ended early, and only steps before that count"
        )
    code = NoteCode.FAILED if excluded else NoteCode.ENDED_EARLY
    yield Note(code, f"{'; '.join(parts)}: see Failed.", number=excluded or counted)


def _other_processes(run: Run, answer: Verdict, waterfall: pd.DataFrame) -> Iterator[Note]:
    """A load that can explain the largest loss; without one, a loss that would be a finding."""
    if answer.is_too_busy:
        return
    cell = {"model": answer.model, "np": answer.np, "engine": answer.engine}
    load = cell_setting(run, cell).load
    rows = of_base_cell(waterfall, answer.model, answer.np, answer.engine)
    largest = rows[(rows["cause_id"] == answer.parts.cause_id).to_numpy(dtype=bool)]
    if answer.biggest_loss and len(largest):
        can_be = explains(load, largest.to_dict("records")[0])
    else:
        share = answer.biggest_loss_share if answer.biggest_loss else SMALLEST_COST
        can_be = load.can_cost(share, answer.np)
    if can_be:
        busy = as_sentence(load.text)
        text = f"{busy} Measure again without them before acting."
        yield Note(NoteCode.OTHER_LOAD, text, value=busy)


def _light(run: Run) -> Iterator[Note]:
    if is_light(run):
        text = (
            "Light recording: means over windows of steps, so jitter within a window counts as "
            "exposed transfer; for single steps, gradients and collectives run "
            f"`{full_command(run)}`."
        )
        yield Note(NoteCode.LIGHT, text)
