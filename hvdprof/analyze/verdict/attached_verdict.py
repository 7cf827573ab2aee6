"""The verdict on a run of attached files: it has no baseline, so no efficiency.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof.analyze.files.log_verdict import log_verdict
from hvdprof.analyze.files.next_recording import scaling_advice
from hvdprof.analyze.files.timeline_verdict import timeline_verdict
from hvdprof.analyze.files.training_log_report import training_verdict
from hvdprof.model.file_page import FilePage, FileVerdict, Gravity
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run, Verdict, VerdictParts
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.printed_tables import (
    RANK_TIMERS,
    STRAGGLER_REPORTS,
    TRAINING_ITERATIONS,
)
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files

_TABLES = (TENSOR_USES, EXECUTIONS, INFERRED_STEPS, PENDING_NEGOTIATIONS)
_TRAINING_TABLES = (TRAINING_ITERATIONS, RANK_TIMERS, STRAGGLER_REPORTS)
_MOST_ERRORS = 3
_NO_BASELINE = "Attached files hold no baseline: {} measures how the job scales."


def attached_verdict(
    run: Run, answer: Verdict, findings: pd.DataFrame, pages: Sequence[FilePage]
) -> Verdict:
    """The verdict on attached files: logs, other recorders and timelines, the gravest first.

    Args:
        run: Any run.
        answer: The verdict that holds where no file was attached.
        findings: FINDINGS, the most severe first.
        pages: What the files of other recorders say.
    """
    if not attached_files(run.manifest):
        return answer
    of_recordings = list(_of_recordings(pages))
    of_training = list(_of_training(run, pages))
    verdicts = [
        *of_recordings, *_of_logs(run, findings, pages), *of_training, *_of_timelines(run)
    ]  # fmt: skip
    verdicts.sort(key=lambda verdict: verdict.gravity)
    if not verdicts:
        of_warnings = log_verdict(findings, STALLS.empty(), INCIDENTS.empty())
        verdicts = [of_warnings] if of_warnings.sentence else []
    answer = replace(answer, engine=run.manifest.passes[0].engine)
    if not verdicts:
        return replace(
            answer,
            sentence="The attached files hold no steps and no failure.",
            parts=VerdictParts(),
        )
    caveats = _caveats_of(verdicts)
    if not (of_recordings or of_training):
        text = _NO_BASELINE.format(scaling_advice(answer.engine))
        caveats = (*caveats, Note(NoteCode.NO_BASELINE, text))
    return replace(
        answer,
        sentence=" ".join(verdict.sentence for verdict in verdicts),
        parts=VerdictParts(" ".join(verdict.headline for verdict in verdicts)),
        caveats=caveats,
    )


def led_by_errors(
    run: Run, answer: Verdict, findings: pd.DataFrame, pages: Sequence[FilePage]
) -> Verdict:
    """The verdict on traces behind the hangs and errors that files beside them show.

    Args:
        run: The traces with the files beside them.
        answer: The verdict on the traces.
        findings: FINDINGS, the most severe first.
        pages: What the other files say, the gravest first.
    """
    grave = [page for page in pages if page.verdict and page.gravity <= Gravity.ERROR]
    quoted = findings[(findings["file"] != "").to_numpy()]
    verdicts = [*_of_recordings(grave[:_MOST_ERRORS]), *_of_logs(run, quoted, pages)]
    verdicts.sort(key=lambda verdict: verdict.gravity)
    verdicts = verdicts[:_MOST_ERRORS]
    return replace(
        answer,
        sentence=" ".join((*(verdict.sentence for verdict in verdicts), answer.sentence)),
        caveats=(*_caveats_of(verdicts), *answer.caveats),
        parts=replace(
            answer.parts,
            headline=" ".join((*(verdict.headline for verdict in verdicts), answer.headline)),
        ),
    )


def _caveats_of(verdicts: Sequence[FileVerdict]) -> tuple[Note, ...]:
    distinct = dict.fromkeys(verdict.caveat for verdict in verdicts if verdict.caveat)
    return tuple(Note(NoteCode.OF_FILE, text) for text in distinct)


def _of_recordings(pages: Sequence[FilePage]) -> Iterator[FileVerdict]:
    speaking = [page for page in pages if page.verdict]
    for page in speaking:
        name = f"{page.file}: " if len(speaking) > 1 else ""
        short = page.short and f"{name}{page.short}"
        yield FileVerdict(f"{name}{page.verdict}", page.caveat, page.gravity, short=short)


def _of_timelines(run: Run) -> Iterator[FileVerdict]:
    timelines = run.table(TIMELINES.name).to_dict("records")
    tables = [run.table(table.name) for table in _TABLES]
    for row in timelines:
        segment = str(row["segment"])
        uses, executions, steps, pending = (rows[rows["segment"] == segment] for rows in tables)
        verdict = timeline_verdict(uses, executions, steps, pending, row)
        several = len(timelines) > 1
        yield replace(verdict, sentence=f"{segment}: {verdict.sentence}") if several else verdict


def _of_training(run: Run, pages: Sequence[FilePage]) -> Iterator[FileVerdict]:
    """What outputs say of Megatron's or NeMo's iterations; files with a page speak there."""
    paged = {page.file for page in pages}
    tables = [run.table(table.name) for table in _TRAINING_TABLES]
    files = [file for file in dict.fromkeys(map(str, tables[0]["file"])) if file not in paged]
    for file in files:
        verdict = training_verdict(*(rows[(rows["file"] == file).to_numpy()] for rows in tables))
        if verdict.sentence:
            name = f"{file}: " if len(files) > 1 else ""
            yield replace(verdict, sentence=f"{name}{verdict.sentence}")


def _of_logs(run: Run, findings: pd.DataFrame, pages: Sequence[FilePage]) -> Iterator[FileVerdict]:
    """The file with the most severe error as it says alone; then the first failure elsewhere.

    Files with a page speak there.
    """
    paged = [page.file for page in pages]
    findings, incidents, stalls = (
        rows[~rows["file"].isin(paged).to_numpy()]
        for rows in (findings, run.table(INCIDENTS.name), run.table(STALLS.name))
    )
    errors = findings[(findings["severity"] == "error").to_numpy()]
    if len(errors):
        file = str(errors["file"].iloc[0])
        own = [rows[(rows["file"] == file).to_numpy()] for rows in (findings, stalls, incidents)]
        verdict = log_verdict(*own)
        see = f" See {file}." if len(_outputs(run)) > 1 and file else ""
        short = verdict.short and f"{verdict.short}{see}"
        yield replace(verdict, sentence=f"{verdict.sentence}{see}", short=short)
        incidents = incidents[(incidents["file"] != file).to_numpy()]
    if len(incidents):
        yield _first_failure(run, incidents.iloc[0])


def _outputs(run: Run) -> list[AttachedFile]:
    return [
        attached_file
        for attached_file in attached_files(run.manifest)
        if attached_file.kind == AttachedKind.OUTPUT
    ]


def _first_failure(run: Run, first: pd.Series) -> FileVerdict:
    where = f"line {first['line']}"
    if len(_outputs(run)) > 1:
        where += f" of {first['file']}"
    if not pd.isna(first["rank"]):
        where += f", by rank {first['rank']}"
    message = str(first["message"]).rstrip(".")
    sentence = f"The output reports a failure, first in {where}: {message}."
    return FileVerdict(sentence, gravity=Gravity.ERROR)
