"""The analysis of standalone files: a page for each file, and tables made of all of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import pandas as pd

from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.files.joint_verdict import joint_verdicts
from hvdprof.analyze.files.log_verdict import log_verdict
from hvdprof.analyze.files.nccl_facts import job_join_facts, nccl_facts
from hvdprof.analyze.files.set_pages import first_and_more, page_of
from hvdprof.analyze.files.source_answers import ANSWERS, ANSWERS_OF, OfRows, nccl_verdict
from hvdprof.analyze.findings.finding import by_severity, each_once
from hvdprof.analyze.findings.log_findings import log_findings
from hvdprof.analyze.findings.nccl_findings import findings_of_jobs
from hvdprof.analyze.nccl_join.nccl_call_join import JobJoins, joins_of
from hvdprof.analyze.scaling.throughput_scaling import (
    estimates_of,
    iteration_series,
    throughput_scaling,
)
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import FilePage, FileVerdict, Gravity
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.sources import NCCL_LOG, SOURCES, Source, source_of
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import (
    FILES,
    INCIDENTS,
    STALLS,
    THROUGHPUT,
    THROUGHPUT_SCALING,
)
from hvdprof.model.tables.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS

_T = TypeVar("_T")


def analyze_files(run: Run) -> FilesAnalysis:
    """The finished analysis of a run that was put together from standalone files.

    The tables on communication are left out where a timeline is in the cache: they are as large.
    """
    joins = joins_of(run)
    findings = by_severity(log_findings(run), findings_of_jobs(run.nccl))
    logs = estimates_of(iteration_series(run.table(TRAINING_ITERATIONS.name)))
    scaling = throughput_scaling(run.table(THROUGHPUT.name), logs=logs)
    derived = {
        THROUGHPUT_SCALING.name: scaling,
        FINDINGS.name: each_once(findings),
        NCCL_JOINED_CALLS.name: joins.pairs,
    }
    if not run.cached:
        derived |= communication_tables(run, JOB_STEPS.empty(), COLLECTIVE_ARRIVALS.empty())
    return FilesAnalysis(
        run,
        file_pages(run, findings, joins),
        scaling,
        {name: frame for name, frame in derived.items() if len(frame)},
        joint_verdicts(run),
    )


def file_pages(
    run: Run, findings: pd.DataFrame, joins: JobJoins | None = None
) -> tuple[FilePage, ...]:
    """The pages of the files that FILES lists, the gravest first.

    Args:
        run: Standalone files, or a run directory with files of other recorders.
        findings: FINDINGS on the output of jobs.
        joins: NCCL's calls with the executions of timelines, where both are there.
    """
    together: dict[Source, list[FrameRow]] = {}
    alone = []
    for row in run.table(FILES.name).to_dict("records"):
        source = source_of(str(row["kind"])) if row["num_rows"] else None
        if source is not None and ANSWERS_OF[source].pages:
            together.setdefault(source, []).append(row)
        else:
            alone.append(row)
    known = joins or JobJoins(NCCL_JOINED_CALLS.empty(), {})
    pages = [
        # Searching all tables for a file costs milliseconds; most files of a folder hold nothing.
        _page(run, members, known, findings)
        if members[0]["num_rows"]
        else page_of(members, str(members[0]["file"]), (), (), FileVerdict(""))
        for members in _of_jobs(run, alone)
    ]
    for answers in ANSWERS:
        if answers.pages and answers.source in together:
            pages += answers.pages(run, together[answers.source])
    return _gravest_first(pages, findings)


def _gravest_first(pages: Iterable[FilePage], findings: pd.DataFrame) -> tuple[FilePage, ...]:
    """The pages by their verdicts and errors; files that say nothing come last."""
    errors = findings.loc[(findings["severity"] == "error").to_numpy(), "file"].unique()
    # Of the outputs of all ranks, that of the rank behind has the first error.
    places = {str(file): place for place, file in enumerate(errors, start=1)}
    # A stall that only warns follows from an error.
    warned = {str(file) for file in findings["file"]} - set(places)

    def order(page: FilePage) -> tuple[Gravity, int, bool]:
        is_behind = page.gravity == Gravity.HANG and page.file in warned
        place = len(places) + 1 if is_behind else places.get(page.file, 0)
        return page.gravity, place, not page.facts

    return tuple(sorted(pages, key=order))


def _page(
    run: Run, members: Sequence[FrameRow], joins: JobJoins, findings: pd.DataFrame
) -> FilePage:
    file = str(members[0]["file"])
    own = findings[findings["file"].isin([member["file"] for member in members]).to_numpy()]
    verdict = log_verdict(own, _rows(run, STALLS, file), _rows(run, INCIDENTS, file))
    for answers in ANSWERS:
        if answers.verdict and not verdict.sentence:
            of, tables = answers.verdict
            verdict = of(*(_rows(run, table, file) for table in tables))
    facts = [
        fact
        for source in SOURCES
        for found in _said(run, file, ANSWERS_OF[source].facts)
        for fact in found
    ]
    for job, recording in enumerate(run.nccl):
        if _is_log_of(recording, file):
            verdict = verdict if verdict.sentence else nccl_verdict(recording, own)
            facts += nccl_facts(recording)
            facts += job_join_facts(joins.by_job[job]) if job in joins.by_job else []
    asked = (
        question
        for answers in ANSWERS
        for questions in _said(run, file, answers.unanswered)
        for question in questions
    )
    return page_of(members, first_and_more(members), facts, asked, verdict)


def _said(run: Run, file: str, functions: Sequence[OfRows[_T]]) -> Iterator[_T]:
    """What functions say of the rows of a file, where any of their tables has one."""
    for of, tables in functions:
        rows = [_rows(run, table, file) for table in tables]
        if any(map(len, rows)):
            yield of(*rows)


def _rows(run: Run, table: Table, file: str) -> pd.DataFrame:
    """Rows of a table that names the file of each row."""
    frame = run.table(table.name)
    return frame[frame["file"] == file]


def _of_jobs(run: Run, files: Sequence[FrameRow]) -> list[list[FrameRow]]:
    """The files by page: NCCL logs of one job share one, since all of them say the same."""
    groups: dict[object, list[FrameRow]] = {}
    for row in files:
        key: object = row["file"]
        if row["kind"] in NCCL_LOG.kinds and row["num_rows"]:
            key = next((job for job, own in enumerate(run.nccl) if _is_log_of(own, key)), key)
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _is_log_of(recording: NcclRecording, file: object) -> bool:
    return bool((recording.line_kinds["file"] == file).any())
