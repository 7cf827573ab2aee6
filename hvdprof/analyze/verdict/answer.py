"""Which verdict a run gets: on its cells, its traces, its attached files, or its network.

Tested in ``tests/analyze/test_pipeline.py``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import pandas as pd

from hvdprof.analyze.communication.network import network_verdict
from hvdprof.analyze.verdict.agreement import CellAccount, cell_account
from hvdprof.analyze.verdict.busy_machine import busy_sentences
from hvdprof.analyze.verdict.run_verdict import CellChecks, verdict
from hvdprof.model.cell_key import is_finished, ranks_lacking
from hvdprof.model.file_page import FilePage, FileVerdict, Gravity
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import FailedSegment, Run, Verdict, VerdictParts
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.sample_tables import NET_LINKS
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.attached import AttachedKind, attached_files, has_traces
from hvdprof.rundir.manifest import Mode

_TABLES = (TENSOR_USES, EXECUTIONS, INFERRED_STEPS, PENDING_NEGOTIATIONS)
_MOST_ERRORS = 3
_NO_BASELINE = "Attached files hold no baseline: {} measures how the job scales."


def attached_verdict(run: Run, answer: Verdict, pages: Sequence[FilePage]) -> Verdict:
    """The verdict on attached files: logs, other recorders and timelines, the gravest first.

    Args:
        run: Any run.
        answer: The verdict that holds where no file was attached.
        pages: What the files say, the gravest first.
    """
    if not attached_files(run.manifest):
        return answer
    from hvdprof.analyze.files.joint_verdict import last_ranks_of_exports
    from hvdprof.analyze.files.next_recording import scaling_advice

    of_recordings = [*last_ranks_of_exports(run), *_speaking(run, pages)]
    verdicts = [*of_recordings, *_of_timelines(run)]
    verdicts.sort(key=lambda verdict: verdict.gravity)
    if not verdicts:
        said = [page for page in pages if page.verdict][:1]
        verdicts = [FileVerdict(page.verdict, page.caveat, page.gravity) for page in said]
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


def led_by_errors(run: Run, answer: Verdict, pages: Sequence[FilePage]) -> Verdict:
    """The verdict on traces behind the hangs and errors that files beside them show.

    Args:
        run: The traces with the files beside them.
        answer: The verdict on the traces.
        pages: What the other files say, the gravest first.
    """
    grave = (found for found in _speaking(run, pages) if found.gravity <= Gravity.ERROR)
    verdicts = sorted(grave, key=lambda verdict: verdict.gravity)[:_MOST_ERRORS]
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


def _of_timelines(run: Run) -> Iterator[FileVerdict]:
    from hvdprof.analyze.files.timelines.timeline_verdict import timeline_verdict

    timelines = run.table(TIMELINES.name).to_dict("records")
    tables = [run.table(table.name) for table in _TABLES]
    for row in timelines:
        segment = str(row["segment"])
        uses, executions, steps, pending = (rows[rows["segment"] == segment] for rows in tables)
        verdict = timeline_verdict(uses, executions, steps, pending, row)
        several = len(timelines) > 1
        yield replace(verdict, sentence=f"{segment}: {verdict.sentence}") if several else verdict


def _speaking(run: Run, pages: Sequence[FilePage]) -> Iterator[FileVerdict]:
    """The verdicts of the files; of several outputs, that of the gravest alone."""
    files = attached_files(run.manifest)
    outputs = [file.copy for file in files if file.kind == AttachedKind.OUTPUT]
    gravest = next((page for page in pages if page.file in outputs), None)
    speaking = [
        page
        for page in pages
        if page.verdict
        and (page.file not in outputs or page is gravest)
        and page.gravity < Gravity.CLEAN
    ]
    names = Counter(PurePath(page.file).name for page in pages)
    for page in speaking:
        name = PurePath(page.file).name
        name = name if names[name] == 1 else page.file
        is_one_of_several = len(speaking) > 1 or (page is gravest and len(outputs) > 1)
        name = f"{name}: " if is_one_of_several else ""
        short = page.short and f"{name}{page.short}"
        yield FileVerdict(f"{name}{page.verdict}", page.caveat, page.gravity, short=short)


def answer(
    run: Run,
    tables: Mapping[str, pd.DataFrame],
    failed: Sequence[FailedSegment],
    pages: Sequence[FilePage],
) -> Verdict:
    """The verdict of a run, without its caveats.

    Args:
        run: Any run.
        tables: Those of its analysis, by name.
        failed: Its cells that failed.
        pages: What its attached files of other recorders hold.
    """
    by_cell, causes, found = (tables[table.name] for table in (SCALING, WATERFALL, FINDINGS))

    def account_of(cell: pd.Series) -> CellAccount:
        return cell_account(tables, run.segments, cell)

    if has_traces(run.manifest):
        from hvdprof.analyze.verdict.traced_verdict import traced_verdict

        waits = tables[CAUSED_WAIT.name]
        of_traces = traced_verdict(run, by_cell, causes, found, waits, account_of)
        known = led_by_errors(run, of_traces, pages)
    else:
        timed = run.segments[(run.segments["mode"] == Mode.THROUGHPUT).to_numpy()]
        checks = CellChecks(
            busy_of=lambda cell: busy_sentences(run, cell),
            account_of=account_of,
            num_recorded=int((is_finished(timed) & ~ranks_lacking(timed)).sum()),
        )
        of_cells = verdict(by_cell, causes, found, failed, run.manifest, checks=checks)
        known = attached_verdict(run, of_cells, pages)
    return network_verdict(run, tables[NET_LINKS.name], known)
