"""The verdict on a run of attached files: it has no baseline, so no efficiency.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof.analyze.files.log_verdict import log_verdict
from hvdprof.analyze.files.next_recording import scaling_advice
from hvdprof.analyze.files.timeline_verdict import timeline_verdict
from hvdprof.model.file_page import FilePage, FileVerdict, Gravity
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run, Verdict, VerdictParts
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files

_TABLES = (TENSOR_USES, EXECUTIONS, INFERRED_STEPS, PENDING_NEGOTIATIONS)
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
    speaking = _speaking(run, pages)
    of_recordings = list(_of_recordings(speaking))
    verdicts = [*of_recordings, *_of_logs(run, findings, speaking), *_of_timelines(run)]
    verdicts.sort(key=lambda verdict: verdict.gravity)
    if not verdicts:
        # One of many outputs, or logs that say nothing of their own.
        verdicts = list(_of_recordings([page for page in pages if page.verdict][:1]))
    answer = replace(answer, engine=run.manifest.passes[0].engine)
    if not verdicts:
        return replace(
            answer,
            sentence="The attached files hold no steps and no failure.",
            parts=VerdictParts(),
        )
    caveats = _caveats_of(verdicts)
    if not of_recordings and verdicts[0].gravity > Gravity.ERROR:
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
        caveats=(
            *_caveats_of(verdicts),
            *(note for note in answer.caveats if not verdicts or note.code != NoteCode.NO_BASELINE),
        ),
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


def _speaking(run: Run, pages: Sequence[FilePage]) -> list[FilePage]:
    """The pages that the verdict is made of.

    Of outputs of several ranks, the gravest line speaks; a log with nothing wrong speaks alone.
    """
    copies = {file.copy: file for file in attached_files(run.manifest)}
    several = {file.copy for file in _outputs(run)} if len(_outputs(run)) > 1 else set()
    logs = {name for name, file in copies.items() if file.kind == AttachedKind.NCCL_LOG}
    return [
        page
        for page in pages
        if page.file not in several
        and not (page.gravity == Gravity.NONE and page.file.partition(" and ")[0] in logs)
    ]


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
