"""Warnings: what makes the numbers of a run less trustworthy, with the numbers."""

from collections.abc import Iterator, Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.steps.other_load import host_condition_warnings
from hvdprof.model.cell_key import (
    LAUNCH,
    ranks_beside,
    ranks_lacking,
    short_name,
    toggles_beside,
    toggles_name,
)
from hvdprof.model.limits import WIDE_MARK, is_wide
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import FailedSegment, Run
from hvdprof.model.schema import as_text
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.manifest import Mode, PassRecord, Status
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    TF_ENGINES,
    TF_PARAMETER_SERVER,
)

MIN_STEPS = 30
MIN_EFFECTIVE_STEPS = 10
LARGEST_DRIFT = 0.05
CLEAR_ERRORS = 3.0
MOST_NOTES = 8

_SAID_ELSEWHERE = (NoteCode.NO_RECORDING, NoteCode.FAULTS_INJECTED)
"""Notes with a warning or a finding of their own."""


def warnings_of(
    run: Run, launches: pd.DataFrame, scaling: pd.DataFrame, failed: Sequence[FailedSegment]
) -> tuple[Note, ...]:
    """The warnings of the run itself, then those that its numbers give, the gravest first."""
    measured = as_text(launches, LAUNCH).merge(as_text(run.segments, LAUNCH), on=LAUNCH)
    throughput = measured[measured["mode"] == Mode.THROUGHPUT]
    # What a job that exists was started with is not known, nor can it be measured again.
    found = [
        *(Note(NoteCode.MEASUREMENT, text) for text in run.manifest.warnings),
        *_failed_cells(failed),
        *_restarted(run.manifest.passes),
        *_oversubscribed(scaling),
        *_unfinished(run),
        *_missing_ranks(run),
        *_unseen_waits(run),
        *_unseen_copies(run),
        *_damaged_recordings(run),
        *_unaligned_clocks(run),
        *host_condition_warnings(run),
        *(() if attached_files(run.manifest) else _not_pinned(scaling)),
        *_steadiness(throughput),
        *_few_steps(throughput),
        *(() if attached_files(run.manifest) else _one_launch(scaling)),
        *_wide_intervals(scaling),
        *_negative_overhead(scaling),
    ]
    return tuple(dict.fromkeys(found))


def _failed_cells(failed: Sequence[FailedSegment]) -> Iterator[Note]:
    cut = [segment for segment in failed if segment.is_counted]
    if cut:
        text = (
            f"{_number(len(cut), 'launch', 'launches')} ended early. Steps before that count. "
            f"First: {cut[0].pass_id}."
        )
        yield Note(
            NoteCode.ENDED_EARLY, text, pass_id=cut[0].pass_id, rank=cut[0].rank, number=len(cut)
        )
    failed = [segment for segment in failed if not segment.is_counted]
    if failed:
        first = failed[0]
        text = (
            f"{_number(len(failed), 'measurement')} failed and excluded. First: {first.model} at "
            f"np={first.np} ({first.pass_id})."
        )
        yield Note(
            NoteCode.FAILED, text, pass_id=first.pass_id, rank=first.rank, number=len(failed)
        )


def _restarted(passes: Sequence[PassRecord]) -> Iterator[Note]:
    again = [record for record in passes if record.restarts]
    if again:
        text = (
            f"{_number(len(again), 'launch', 'launches')} started again, since the launcher had "
            f"failed before any rank began. First: {again[0].id}. {again[0].restarts[0]}."
        )
        yield Note(NoteCode.RESTARTED, text, pass_id=again[0].id, number=len(again))


def _oversubscribed(scaling: pd.DataFrame) -> Iterator[Note]:
    crowded = scaling[scaling["oversubscribed"].to_numpy(dtype=bool)]
    if len(crowded):
        sizes = ", ".join(map(str, sorted(set(crowded["np"]))))
        text = (
            f"np={sizes}: more ranks than cores or GPUs (oversubscribed). "
            f"{ranks_beside(crowded['engine'])}Measured, but excluded from statements on scaling."
        )
        yield Note(NoteCode.OVERSUBSCRIBED, text)


def _missing_ranks(run: Run) -> Iterator[Note]:
    if attached_files(run.manifest):
        return
    done = run.segments[(run.segments["status"] == Status.DONE).to_numpy()]
    lacking = done[ranks_lacking(done)]
    if not lacking.empty:
        worst = lacking.iloc[0]
        text = (
            f"{_number(len(lacking), 'measurement')} without recordings of all ranks: wait "
            f"attribution unavailable. First: {worst['pass_id']} with "
            f"{worst['num_ranks_recorded']} of {worst['size']} ranks."
        )
        yield Note(NoteCode.MISSING_RANKS, text, pass_id=str(worst["pass_id"]), number=len(lacking))


def _unseen_waits(run: Run) -> Iterator[Note]:
    segments = run.segments
    # Of that one a single worker, too, waits for its server.
    of_server = segments["engine"] == TF_PARAMETER_SERVER
    is_unseen = segments["engine"].isin(TF_ENGINES) & ((segments["size"] > 1) | of_server)
    unseen = segments[(is_unseen & (segments["status"] == Status.DONE)).to_numpy()]
    if len(unseen):
        first = unseen.iloc[0]["pass_id"]
        text = (
            f"{_number(len(unseen), 'measurement')} under a strategy of tf.distribute, which "
            "reduces within its compiled step: no blocked time, no phases, no straggler. First: "
            f"{first}."
        )
        if (unseen["engine"] == TF_PARAMETER_SERVER).any():
            text += (
                " Under ParameterServerStrategy workers train each on its own: a step is as many "
                "steps of any workers as there are workers."
            )
        yield Note(NoteCode.UNSEEN_WAITS, text, pass_id=str(first), number=len(unseen))


def _unseen_copies(run: Run) -> Iterator[Note]:
    is_unseen = run.segments["engine"] == DATA_PARALLEL_ENGINE
    unseen = run.segments[(is_unseen & (run.segments["status"] == Status.DONE)).to_numpy()]
    if len(unseen):
        text = (
            f"{_number(len(unseen), 'measurement')} under DataParallel, which copies between GPUs "
            f"within forward and backward: no blocked time. First: {unseen.iloc[0]['pass_id']}."
        )
        yield Note(NoteCode.UNSEEN_WAITS, text, number=len(unseen))


def _unfinished(run: Run) -> Iterator[Note]:
    manifest, total = run.manifest, len(run.segments)
    left = int(run.segments["status"].isin([Status.INTERRUPTED, Status.PLANNED]).sum())
    if manifest.status != Status.INTERRUPTED or not (left or manifest.was_killed):
        return
    why = "hvdprof was killed, or this is a copy of a run in progress; "
    text = (
        f"The run was interrupted: {why if manifest.was_killed else ''}{left} of {total} "
        f"measurements missing. Resume with `{manifest.resume_command(run.folder)}`."
    )
    yield Note(NoteCode.UNFINISHED, text, number=left)


def _damaged_recordings(run: Run) -> Iterator[Note]:
    # Failed passes have no numbers here, and a warning of their own. Notes on files of other tools
    # are on no pass, and nothing else says that one of them is not used.
    counted = {record.id for record in run.manifest.passes if record.status == Status.DONE}
    is_attached = bool(attached_files(run.manifest))
    notes = [
        note
        for note in run.notes
        if (is_attached or note.pass_id in counted or note.code == NoteCode.NOT_READ)
        and note.code not in _SAID_ELSEWHERE
    ]
    yield from notes[:MOST_NOTES]
    if (more := len(notes) - MOST_NOTES) > 0:
        text = f"{more} more recordings are damaged or incomplete."
        yield Note(NoteCode.DAMAGED, text, number=more)


def _unaligned_clocks(run: Run) -> Iterator[Note]:
    method = run.ranks["clock_method"].astype(str)
    loose = run.ranks[method.isin(["wall-clock", "none"])]
    if not loose.empty:
        first = loose.iloc[0]
        text = (
            f"{_number(len(loose), 'recording')} without a clock offset to rank 0: step times "
            f"across hosts may be wrong there. First: rank {first['rank']} in {first['pass_id']}."
        )
        yield Note(
            NoteCode.UNALIGNED_CLOCKS,
            text,
            pass_id=str(first["pass_id"]),
            rank=int(first["rank"]),
            number=len(loose),
        )


def _not_pinned(scaling: pd.DataFrame) -> Iterator[Note]:
    loose = scaling[~scaling["pinned"] & ~scaling["oversubscribed"]]
    if not loose.empty:
        sizes = ", ".join(map(str, sorted(set(loose["np"]))))
        text = (
            f"np={sizes}: ranks were not pinned to their own cores, so the kernel may have moved "
            "them between cores."
        )
        yield Note(NoteCode.NOT_PINNED, text)


def _steadiness(launches: pd.DataFrame) -> Iterator[Note]:
    unsteady = launches[~launches["steady"]]
    if not unsteady.empty:
        text = (
            f"{_number(len(unsteady), 'launch', 'launches')} without a steady state: step times "
            f"still changed half way through. First: {_cell(unsteady.iloc[0])}. "
            "Measure more steps."
        )
        yield Note(NoteCode.UNSTEADY, text, number=len(unsteady))
    clear = launches["drift"].abs() > CLEAR_ERRORS * launches["drift_error"]
    drifting = launches[clear & (launches["drift"].abs() > LARGEST_DRIFT)]
    if not drifting.empty:
        worst = _last_by(drifting, drifting["drift"].abs())
        text = (
            f"{_number(len(drifting), 'launch', 'launches')} with drift of the step time. Worst: "
            f"{_cell(worst)}, {units.percent(worst['drift'])} from first to last step."
        )
        yield Note(NoteCode.DRIFT, text, pass_id=str(worst["pass_id"]), number=len(drifting))


def _few_steps(launches: pd.DataFrame) -> Iterator[Note]:
    few = launches[
        (launches["num_steps"] < MIN_STEPS)
        | (launches["num_effective_steps"] < MIN_EFFECTIVE_STEPS)
    ]
    if not few.empty:
        worst = _last_by(few, -few["num_effective_steps"])
        text = (
            f"{_number(len(few), 'launch', 'launches')} with too few steady steps: intervals need "
            f"{MIN_STEPS}, and an effective sample size of {MIN_EFFECTIVE_STEPS}. Worst: "
            f"{_cell(worst)}, {_number(int(worst['num_steps']), 'step')}, effective sample size "
            f"{worst['num_effective_steps']:.0f}."
        )
        yield Note(NoteCode.FEW_STEPS, text, pass_id=str(worst["pass_id"]), number=len(few))


def _one_launch(scaling: pd.DataFrame) -> Iterator[Note]:
    repeated = set(scaling.loc[scaling["num_launches"] > 1, "np"])
    sizes = sorted(set(scaling["np"]) - repeated)
    if sizes:
        text = (
            f"np={', '.join(map(str, sizes))}: one launch per cell. Differences between launches "
            "are unknown, and the intervals hold for this launch alone. Add --repeats."
        )
        yield Note(NoteCode.ONE_LAUNCH, text)


def _wide_intervals(scaling: pd.DataFrame) -> Iterator[Note]:
    half = (scaling["efficiency_high"] - scaling["efficiency_low"]) / 2 / scaling["efficiency"]
    wide = scaling[is_wide(scaling) & ~scaling["oversubscribed"]]
    if not wide.empty:
        worst = _last_by(wide, half[wide.index])
        text = (
            f"{_number(len(wide), 'efficiency', 'efficiencies')} with a 95 % CI wider than ±10 % "
            f"of the value ({WIDE_MARK}). Worst: {_cell(worst)}, "
            + units.percent_interval(
                worst["efficiency"], worst["efficiency_low"], worst["efficiency_high"]
            )
            + ". Measure more repeats or more steps."
        )
        yield Note(NoteCode.WIDE_INTERVAL, text, number=len(wide))


def _negative_overhead(scaling: pd.DataFrame) -> Iterator[Note]:
    negative = scaling[(scaling["trace_overhead_high"] < 0).to_numpy()]
    if len(negative):
        worst = negative.sort_values("trace_overhead_high").iloc[0]
        overhead = units.percent_interval(
            worst["trace_overhead"], worst["trace_overhead_low"], worst["trace_overhead_high"]
        )
        text = (
            f"{_number(len(negative), 'cell')} with trace overhead not measurable: it is "
            f"negative, {overhead} for {_cell(worst)}. "
            "Something else slowed the passes without a timeline more, such as other processes."
        )
        yield Note(NoteCode.NEGATIVE_OVERHEAD, text, number=len(negative))


def _last_by(frame: pd.DataFrame, order: pd.Series) -> pd.Series:
    return frame.iloc[int(order.to_numpy().argmax())]


def _cell(row: pd.Series) -> str:
    """A cell, or a launch with its pass: ``mnist np=2 DDP (fp16, 03-np2-throughput-r1)``."""
    name = short_name(row["model"], row["np" if "np" in row else "size"], str(row["engine"]))
    toggles = toggles_beside(row) or toggles_name(str(row["compression"]), str(row["reduction"]))
    beside = ", ".join(filter(None, (toggles, row.get("pass_id", ""))))
    return f"{name} ({beside})" if beside else name


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
