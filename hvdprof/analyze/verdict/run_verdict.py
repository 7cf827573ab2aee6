"""The verdict of a run: the efficiency of its worst cell, the largest loss and its fix."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import SMALLEST_COST, WARNING_COST
from hvdprof.analyze.scaling.known_cells import base_cells, largest_of_each_model, scaled_cells
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.verdict.agreement import CellAccount
from hvdprof.analyze.verdict.failures import failure_sentence
from hvdprof.analyze.verdict.largest_loss import (
    LargestLoss,
    cost_of_baseline,
    largest_loss,
    nothing_large,
    offset,
)
from hvdprof.model.causes import INPUT_BOUND, PAUSE, STRAGGLER
from hvdprof.model.cell_key import (
    place_name,
    toggles_beside,
    without_toggles,
)
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import FailedSegment, Sentence, Verdict, VerdictParts
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, Mode, Status
from hvdprof.rundir.plan import DATA_PARALLEL_ENGINE, TF_ENGINES, TORCH_ENGINE

OF_CROWDED_CELLS = (STRAGGLER, PAUSE, INPUT_BOUND)
"""Terms that ranks which share cores do not lengthen by themselves."""

_ONE_SIZE_ALONE = Note(NoteCode.NO_BASELINE, "One number of ranks alone: no scaling to judge.")
_TOGGLES_ALONE = Note(NoteCode.NO_BASELINE, "Cells with toggles alone: no scaling to judge.")
_OVERSUBSCRIBED = Note(
    NoteCode.OVERSUBSCRIBED,
    "The ranks shared cores or GPUs (oversubscribed), so this says nothing about scaling.",
)
_ONE_LAUNCH = Note(
    NoteCode.ONE_LAUNCH, "One launch per cell: differences between launches are unknown."
)


@dataclass(frozen=True, slots=True)
class CellChecks:
    """What is asked of a cell before its largest loss is named.

    ``busy_of``: that other processes leave the cell without an answer, and what to do.
    ``account_of``: the account of its ranks, which the largest loss must agree with.
    ``num_recorded``: the launches without a timeline that ended with a recording of every rank.
    """

    busy_of: Callable[[pd.Series], tuple[str, str] | None] = lambda cell: None
    account_of: Callable[[pd.Series], CellAccount | None] = lambda cell: None
    num_recorded: int = 0


_NO_CHECKS = CellChecks()


def verdict(
    scaling: pd.DataFrame,
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    failed: Sequence[FailedSegment],
    manifest: Manifest,
    *,
    checks: CellChecks = _NO_CHECKS,
) -> Verdict:
    """The verdict of a run: at most three sentences, and a caveat.

    1.  Only cells without toggles count, and those of DDP only where Horovod has none. Of each
        model the largest number of ranks is taken that is not oversubscribed and not the baseline;
        of these the one with the lowest efficiency.
    2.  The largest loss is the costliest row of WATERFALL of that cell, from 5 % of the step on,
        with the fix of its finding, and the next one with an address: also where there is one
        number of ranks alone, and where ranks share cores (of which a straggler, a pause or the
        input counts). Where there is none, it is the largest cost that the baseline has as well; of
        one number of ranks alone, the largest term as the bound of what is lost.
    3.  A stall that was seen, else the failure of the job, comes first, then the number; findings
        hold the largest loss.
    4.  Where nothing can be said, the sentence says why.
    5.  The caveat begins with the run's progress while it is measured.

    Args:
        scaling: SCALING of the run.
        waterfall: WATERFALL.
        findings: FINDINGS.
        failed: The failed measurements, first failure first.
        manifest: That of the run.
        checks: What is asked of a cell before its largest loss is named.
    """
    answer = _judged(scaling, waterfall, findings, failed, manifest, checks)
    if manifest.status not in NOT_ENDED or not answer.model:
        return answer
    ended = sum(record.status not in NOT_ENDED for record in manifest.passes)
    begin = f"Provisional: {ended} of {len(manifest.passes)} launches have ended."
    return _limited(answer, Note(NoteCode.PROVISIONAL, begin, number=ended))


def _judged(
    scaling: pd.DataFrame,
    waterfall: pd.DataFrame,
    findings: pd.DataFrame,
    failed: Sequence[FailedSegment],
    manifest: Manifest,
    checks: CellChecks,
) -> Verdict:
    stall = next((str(lead) for lead in findings["lead"] if lead), "")
    base = base_cells(scaling)
    many = scaled_cells(base)
    valid = many[~many["oversubscribed"]]
    if not valid.empty:
        cell = _worst(valid)
        if busy := checks.busy_of(cell):
            return _busy_verdict(cell, busy, stall or _failure(failed, cell))
        # Where no efficiency is lost for certain, a cause must be worth a warning.
        is_lost = cell["efficiency_high"] < 1 or math.isnan(cell["efficiency_high"])
        smallest = SMALLEST_COST if is_lost else WARNING_COST
        loss = largest_loss(
            waterfall, findings, cell, smallest=smallest, account=checks.account_of(cell)
        )
        lead = stall or _failure(failed, cell)
        return _scaling_verdict(cell, loss, lead, cost_of_baseline(waterfall, findings, cell))
    if not many.empty:
        cell = _worst(many)
        loss = largest_loss(
            waterfall, findings, cell, terms=OF_CROWDED_CELLS, account=checks.account_of(cell)
        )
        of_baseline = cost_of_baseline(waterfall, findings, cell, terms=OF_CROWDED_CELLS)
        lead = stall or _failure(failed, cell)
        return _oversubscribed_verdict(cell, loss, lead, of_baseline)
    if not base.empty:
        cell = base.iloc[-1]
        loss = largest_loss(waterfall, findings, cell, account=checks.account_of(cell))
        rest = nothing_large(waterfall, cell) if loss is None else loss.sentence
        return _one_size_verdict(cell, _ONE_SIZE_ALONE, loss, rest, stall or _failure(failed, cell))
    if not scaling.empty:
        cell = scaling.iloc[-1]
        why = _ONE_SIZE_ALONE if without_toggles(scaling).all() else _TOGGLES_ALONE
        loss = largest_loss(waterfall, findings, cell, account=checks.account_of(cell))
        rest = None if loss is None else loss.sentence
        return _one_size_verdict(cell, why, loss, rest, stall or _failure(failed, cell))
    answer = _empty_verdict(failed, manifest, checks.num_recorded)
    return replace(answer, sentence=_joined(stall, answer.sentence))


def _failure(failed: Sequence[FailedSegment], cell: pd.Series) -> str:
    return failure_sentence(failed, str(cell["model"]), int(cell["np"]), str(cell["engine"]))


def _worst(cells: pd.DataFrame) -> pd.Series:
    return largest_of_each_model(cells).sort_values("efficiency", kind="stable").iloc[0]


def _busy_verdict(cell: pd.Series, busy: tuple[str, str], lead: str) -> Verdict:
    why, action = busy
    said = (*_whole(lead, why), _number(cell), *_whole(action))
    return replace(_verdict(said, cell, lead=lead), is_too_busy=True)


def _number(cell: pd.Series) -> Sentence:
    short = f"{_place(cell)}: {_efficiency(cell)} scaling efficiency"
    if _efficiency(cell) == units.UNKNOWN:
        short = f"{_place(cell)}: scaling efficiency {units.UNKNOWN}"
    return Sentence(f"{short} against {cell['baseline']}.", f"{short}.")


def _scaling_verdict(
    cell: pd.Series, loss: LargestLoss | None, lead: str, of_baseline: Sentence | None
) -> Verdict:
    number = _number(cell)
    if loss is not None:
        answer = _verdict(_said(lead, number, loss.sentence), cell, loss, lead)
        gains = offset(answer)
        return _limited(answer, Note(NoteCode.OFFSET, gains)) if gains else answer
    rest = "No single loss stands out."
    if cell["efficiency_low"] > 1:
        rest = "No loss: the whole 95 % CI is above 100 %."
    elif cell["efficiency_high"] >= 1:
        rest = "The 95 % CI includes 100 %: no certain loss."
    elif cell["engine"] in TF_ENGINES:
        rest = "Its causes are not seen: the strategy communicates within its compiled step."
    elif cell["engine"] == DATA_PARALLEL_ENGINE:
        rest = "Its causes are not seen: copies between GPUs lie within forward and backward."
    return _verdict(_said(lead, number, of_baseline or Sentence(rest, rest)), cell, lead=lead)


def _oversubscribed_verdict(
    cell: pd.Series, loss: LargestLoss | None, lead: str, of_baseline: Sentence | None
) -> Verdict:
    (number,) = _whole(
        f"{_place(cell)}: {_efficiency(cell)} of the throughput per rank of {cell['baseline']}."
    )
    rest = of_baseline if loss is None else loss.sentence
    if not rest and not lead:
        return _verdict((number, *_whole(_OVERSUBSCRIBED.text)), cell)
    answer = _verdict(_said(lead, number, rest), cell, loss, lead)
    return _limited(answer, _OVERSUBSCRIBED)


def _one_size_verdict(
    cell: pd.Series, why: Note, loss: LargestLoss | None, rest: Sentence | None, lead: str
) -> Verdict:
    speed = units.rate_interval(
        cell["samples_per_s"], cell["samples_per_s_low"], cell["samples_per_s_high"]
    )
    toggled = "" if why == _ONE_SIZE_ALONE else f" ({toggles_beside(cell)})"
    of_torch = ""
    if cell["engine"] != TORCH_ENGINE and cell["baseline"].startswith(TORCH_ENGINE):
        of_torch = f", {_efficiency(cell)} of {cell['baseline']}"
    (number,) = _whole(f"{_place(cell)}{toggled}: {speed} samples/s{of_torch}.")
    if rest is None and not lead:
        return _verdict((number, *_whole(why.text)), cell)
    return _limited(_verdict(_said(lead, number, rest), cell, loss, lead), why)


def _limited(answer: Verdict, note: Note) -> Verdict:
    return replace(answer, caveats=(note, *answer.caveats))


def _said(lead: str, number: Sentence, rest: Sentence | None) -> tuple[Sentence, ...]:
    if lead:
        return (*_whole(lead), number)
    return (number,) if rest is None else (number, rest)


def _whole(*texts: str) -> tuple[Sentence, ...]:
    """Sentences that stand whole in the headline, too."""
    return tuple(Sentence(text, text) for text in texts if text)


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _empty_verdict(
    failed: Sequence[FailedSegment], manifest: Manifest, num_recorded: int
) -> Verdict:
    num_planned = sum(len(record.segments) for record in manifest.passes)
    has_trace = _has_finished_trace(manifest)
    what = "No throughput" if has_trace or num_recorded else "Nothing"
    if failed:
        first = failed[0]
        sentence = (
            f"{what} was measured: {len(failed)} of {num_planned} planned measurements failed. "
            f"First failure, {first.model} at np={first.np}: {first.reason.rstrip('.')}."
        )
    elif manifest.status in NOT_ENDED:
        sentence = "Nothing is measured yet: the run is in progress."
    elif not num_planned:
        sentence = "Nothing was measured: every configuration was skipped."
    elif num_recorded:
        launches = units.counted(num_recorded, "launch")
        sentence = (
            f"{what} was measured: {launches} ended without a recorded step after warm-up. Train "
            "longer, or lower --num-warmup-batches."
        )
    else:
        of_it = " of it" if has_trace else ""
        sentence = f"{what} was measured: no measurement{of_it} was finished and recorded."
    return Verdict(sentence, "", 0, NAN, NAN, NAN, "", NAN)


def _has_finished_trace(manifest: Manifest) -> bool:
    """Whether a pass with the timeline on came to its end: there is something to look at."""
    return any(
        pass_record.mode != Mode.THROUGHPUT and record.status == Status.DONE
        for pass_record in manifest.passes
        for record in pass_record.segments
    )


def _place(cell: pd.Series) -> str:
    return place_name(cell["model"], cell["np"], cell["engine"])


def _efficiency(cell: pd.Series) -> str:
    return units.percent_interval(
        cell["efficiency"], cell["efficiency_low"], cell["efficiency_high"]
    )


def _verdict(
    said: Sequence[Sentence], cell: pd.Series, loss: LargestLoss | None = None, lead: str = ""
) -> Verdict:
    return Verdict(
        sentence=_joined(*(sentence.text for sentence in said)),
        model=str(cell["model"]),
        np=int(cell["np"]),
        efficiency=float(cell["efficiency"]),
        efficiency_low=float(cell["efficiency_low"]),
        efficiency_high=float(cell["efficiency_high"]),
        biggest_loss="" if loss is None else loss.name,
        biggest_loss_share=NAN if loss is None else loss.share,
        engine=str(cell["engine"]),
        caveats=(_ONE_LAUNCH,) if cell["num_launches"] == 1 else (),
        parts=VerdictParts(
            headline=_joined(*(sentence.short for sentence in said)),
            lead=lead,
            cause_id="" if loss is None else loss.cause_id,
            rival="" if loss is None else loss.rival,
        ),
    )
