"""The analysis of standalone files: a page for each file, and tables made of all of them.

Tested in ``tests/cli/test_analyze_files.py``.
"""

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.files.clean_verdict import (
    autotune_verdict,
    logged_verdict,
    nccl_verdict,
)
from hvdprof.analyze.files.inspector_pages import INSPECTOR, inspector_pages
from hvdprof.analyze.files.joint_verdict import joint_verdicts
from hvdprof.analyze.files.log_facts import BY_TABLE
from hvdprof.analyze.files.log_verdict import (
    allreduce_bench_verdict,
    log_verdict,
    nccl_tests_verdict,
)
from hvdprof.analyze.files.nccl_facts import job_join_facts, nccl_facts
from hvdprof.analyze.files.next_recording import SCALING_COMMAND
from hvdprof.analyze.files.nsys_report import nsys_calls_unanswered, nsys_unanswered, nsys_verdict
from hvdprof.analyze.files.ras_report import ras_facts, ras_verdict
from hvdprof.analyze.files.rate_report import rates_verdict, throughput_verdict
from hvdprof.analyze.files.set_pages import (
    FLIGHT_RECORDER,
    RECORDER,
    dump_pages,
    is_log_of,
    is_used_trace,
    of_jobs,
    recording_pages,
    trace_pages,
)
from hvdprof.analyze.files.stack_report import STACKS, fr_trace_verdict, stack_pages, stack_verdict
from hvdprof.analyze.files.steady_steps import steady_steps
from hvdprof.analyze.files.timelines.timeline_facts import timeline_facts, timeline_unanswered
from hvdprof.analyze.files.timelines.timeline_sums import (
    EXECUTION_COLUMNS,
    USE_COLUMNS,
    TimelineSums,
    size_of,
    sums_of,
)
from hvdprof.analyze.files.timelines.timeline_verdict import pending_fact, verdict_of_sums
from hvdprof.analyze.files.training_log_report import (
    comms_unanswered,
    comms_verdict,
    iterations_unanswered,
    training_verdict,
)
from hvdprof.analyze.findings.finding import by_severity, each_once
from hvdprof.analyze.findings.log_findings import log_findings
from hvdprof.analyze.findings.nccl_findings import findings_of_jobs
from hvdprof.analyze.nccl_join.nccl_job_join import JobJoins, joins_of
from hvdprof.analyze.scaling.iteration_series import estimates_of, iteration_series
from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling
from hvdprof.model.file_page import Fact, FilePage, FileVerdict, Gravity, Unanswered
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import Run
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import (
    AUTOTUNE,
    FILES,
    HOROVOD_LOG,
    INCIDENTS,
    PRINTED_RATES,
    STALLS,
    THROUGHPUT,
    THROUGHPUT_SCALING,
)
from hvdprof.model.tables.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.model.tables.nsys_tables import NSYS_GPUS, NSYS_NCCL_CALLS
from hvdprof.model.tables.printed_tables import (
    ALLREDUCE_BENCH,
    COMMS_LOG,
    NCCL_TEST_RUNS,
    NCCL_TESTS,
    RANK_STACKS,
    RANK_TIMERS,
    STRAGGLER_REPORTS,
    TRAINING_ITERATIONS,
)
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS, RAS_STATEMENTS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS

_TOGETHER = (RECORDER, FLIGHT_RECORDER, INSPECTOR, *STACKS)
_OF_RAS = (COLLECTIVE_PROGRESS.name, RAS_STATEMENTS.name)
_VERDICTS: tuple[tuple[tuple[str, ...], Callable[..., FileVerdict]], ...] = (
    ((NCCL_TEST_RUNS.name, NCCL_TESTS.name), nccl_tests_verdict),
    (_OF_RAS, ras_verdict),
    ((RANK_STACKS.name,), stack_verdict),
    ((COLLECTIVE_PROGRESS.name,), fr_trace_verdict),
    ((ALLREDUCE_BENCH.name,), allreduce_bench_verdict),
    ((NSYS_GPUS.name,), nsys_verdict),
    ((COMMS_LOG.name,), comms_verdict),
    ((TRAINING_ITERATIONS.name, RANK_TIMERS.name, STRAGGLER_REPORTS.name), training_verdict),
    ((THROUGHPUT.name,), throughput_verdict),
    ((PRINTED_RATES.name,), rates_verdict),
    ((AUTOTUNE.name,), autotune_verdict),
    ((INCIDENTS.name, HOROVOD_LOG.name), logged_verdict),
)
"""The first sentence that the rows of a file give is its verdict."""
_UNANSWERED: tuple[tuple[str, Callable[[pd.DataFrame], tuple[Unanswered, ...]]], ...] = (
    (NSYS_GPUS.name, nsys_unanswered),
    (NSYS_NCCL_CALLS.name, nsys_calls_unanswered),
    (COMMS_LOG.name, comms_unanswered),
    (TRAINING_ITERATIONS.name, iterations_unanswered),
)
_ROWS_OF_TIMELINES = (TENSOR_USES.name, EXECUTIONS.name, INFERRED_STEPS.name)


def analyze_files(run: Run) -> FilesAnalysis:
    """The finished analysis of a run that was put together from standalone files.

    The tables on communication are left out where a timeline is in the cache: they are as large.
    """
    joins = joins_of(run)
    findings = by_severity(log_findings(run), findings_of_jobs(run.nccl))
    pages = [
        *file_pages(run, findings, joins),
        *recording_pages(run),
    ]
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
        _gravest_first(pages, findings),
        scaling,
        {name: frame for name, frame in derived.items() if len(frame)},
        joint_verdicts(run),
    )


def file_pages(
    run: Run, findings: pd.DataFrame, joins: JobJoins | None = None
) -> tuple[FilePage, ...]:
    """The pages of the files that FILES lists, without recorder files, the gravest first.

    Args:
        run: Standalone files, or a run directory with files of other recorders.
        findings: FINDINGS on the output of jobs.
        joins: NCCL's calls with the executions of timelines, where both are there.
    """
    files = run.table(FILES.name).to_dict("records")
    known = joins or JobJoins(NCCL_JOINED_CALLS.empty(), {})
    pages = [
        # Searching all tables for a file costs milliseconds; most files of a folder hold nothing.
        _page(run, members, known, findings) if members[0]["num_rows"] else _empty_page(members[0])
        for members in of_jobs(
            run,
            [
                row
                for row in files
                if not (is_used_trace(row) or (row["kind"] in _TOGETHER and row["num_rows"]))
            ],
        )
    ]
    pages += trace_pages(run, [row for row in files if is_used_trace(row)])
    pages += dump_pages(run, [row for row in files if row["kind"] == FLIGHT_RECORDER])
    pages += inspector_pages(run, [row for row in files if row["kind"] == INSPECTOR])
    pages += stack_pages(run, [row for row in files if row["kind"] in STACKS])
    return _gravest_first(pages, findings)


def _gravest_first(pages: Iterable[FilePage], findings: pd.DataFrame) -> tuple[FilePage, ...]:
    """The pages by their verdicts and errors; files that say nothing come last."""
    errors = findings.loc[(findings["severity"] == "error").to_numpy(), "file"].unique()
    # Of the outputs of all ranks, that of the rank behind has the first error.
    places = {str(file): place for place, file in enumerate(errors, start=1)}
    return tuple(
        sorted(pages, key=lambda page: (page.gravity, places.get(page.file, 0), not page.facts))
    )


def _page(
    run: Run, members: Sequence[FrameRow], joins: JobJoins, findings: pd.DataFrame
) -> FilePage:
    row, number = members[0], len(members)
    file = str(row["file"])
    own = findings[findings["file"].isin([member["file"] for member in members]).to_numpy()]
    facts, unanswered, verdict = _of_timeline(run, file)
    if not verdict.sentence:
        stalls, incidents = (_of_file(run, name, file) for name in (STALLS.name, INCIDENTS.name))
        verdict = log_verdict(own, stalls, incidents)
    for names, of_rows in _VERDICTS:
        if not verdict.sentence:
            verdict = of_rows(*(_of_file(run, name, file) for name in names))
    of_nccl = (recording for recording in run.nccl if is_log_of(recording, file))
    if not verdict.sentence and (recording := next(of_nccl, None)):
        verdict = nccl_verdict(recording, own)
    more = f" and {number - 1} more" if number > 1 else ""
    return FilePage(
        file=f"{file}{more}",
        kind=str(row["kind"]) if number == 1 else f"{number} {row['kind']}s",
        size_bytes=sum(int(member["size_bytes"]) for member in members),
        facts=(*facts, *_facts_of_logs(run, file, joins)),
        unanswered=tuple(
            asked
            for asked in (*unanswered, *_unanswered_by_logs(run, file))
            # A job that hangs or fails has other questions than how well it scales.
            if verdict.gravity > Gravity.ERROR or asked.command != SCALING_COMMAND
        ),
        verdict=verdict.sentence,
        short=verdict.short,
        caveat=verdict.caveat,
        gravity=verdict.gravity,
        has_numbers=verdict.has_numbers,
    )


def _unanswered_by_logs(run: Run, file: str) -> tuple[Unanswered, ...]:
    return tuple(question for name, of in _UNANSWERED for question in of(_of_file(run, name, file)))


def _empty_page(row: FrameRow) -> FilePage:
    return FilePage(
        file=str(row["file"]),
        kind=str(row["kind"]),
        size_bytes=int(row["size_bytes"]),
        facts=(),
        unanswered=(),
        verdict="",
        caveat="",
        left_out=str(row["left_out"]),
    )


def _of_timeline(
    run: Run, file: str
) -> tuple[tuple[Fact, ...], tuple[Unanswered, ...], FileVerdict]:
    """Facts, open questions and verdict of a timeline; nothing of any other file."""
    rows = _rows_of_file(run, TIMELINES.name, file).to_dict("records")
    if not rows:
        return (), (), FileVerdict("")
    row = rows[0]
    sums = _sums(run, file, size_of(row))
    pending = _rows_of_file(run, PENDING_NEGOTIATIONS.name, file)
    verdict = verdict_of_sums(sums, pending, row)
    facts = (*timeline_facts(sums, row), *pending_fact(pending))
    return facts, timeline_unanswered(sums, row), verdict


def _sums(run: Run, file: str, size: int | None) -> TimelineSums:
    cached = run.cached.get(file)
    if cached is None:
        uses, executions, steps = (_rows_of_file(run, name, file) for name in _ROWS_OF_TIMELINES)
        return sums_of(uses, executions, steps, size)
    sums = TimelineSums(steady_steps(cached[INFERRED_STEPS.name].frame()), size)
    for uses in cached[TENSOR_USES.name].frames(USE_COLUMNS):
        sums.add_uses(uses)
    for executions in cached[EXECUTIONS.name].frames(EXECUTION_COLUMNS):
        sums.add_executions(executions)
    return sums


def _facts_of_logs(run: Run, file: str, joins: JobJoins) -> list[Fact]:
    facts: list[Fact] = []
    for name, describe in BY_TABLE:
        rows = _of_file(run, name, file)
        if len(rows):
            facts += describe(rows)
    facts += ras_facts(*(_of_file(run, name, file) for name in _OF_RAS))
    for job, recording in enumerate(run.nccl):
        if is_log_of(recording, file):
            facts += nccl_facts(recording)
            facts += job_join_facts(joins.by_job[job]) if job in joins.by_job else []
    return facts


def _of_file(run: Run, table: str, file: str) -> pd.DataFrame:
    """Rows of a table that names the file of each row."""
    frame = run.table(table)
    return frame[frame["file"] == file]


def _rows_of_file(run: Run, table: str, file: str) -> pd.DataFrame:
    """Rows of a table of timelines, whose pass is the file."""
    frame = run.table(table)
    return frame[frame["pass_id"] == file]
