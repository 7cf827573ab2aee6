"""What the analysis says of each format: facts, verdict, open questions, and whose page it shares.

The formats themselves are declared in ``model/sources.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files import log_facts as facts_of
from hvdprof.analyze.files import log_verdict, nsys_report, rate_report
from hvdprof.analyze.files import stack_report as stacks
from hvdprof.analyze.files import training_log_report as training
from hvdprof.analyze.files.inspector_pages import inspector_pages
from hvdprof.analyze.files.nccl_facts import grave_problems, network_name, versions_named
from hvdprof.analyze.files.ras_report import ras_facts, ras_verdict
from hvdprof.analyze.files.set_pages import dump_pages, recording_pages, timeline_pages, trace_pages
from hvdprof.model import sources
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import Fact, FilePage, FileVerdict, Gravity, Unanswered
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.tables import log_tables as log
from hvdprof.model.tables import nsys_tables as nsys
from hvdprof.model.tables import printed_tables as printed
from hvdprof.model.tables import rank_collective_tables as calls
from hvdprof.model.tables import run_tables
from hvdprof.model.tables import timeline_tables as timelines
from hvdprof.model.tables.nccl_call_tables import NCCL_CALL_TABLES
from hvdprof.model.tables.nccl_tables import NCCL_TABLES

_SEVERE = ("warning", "error", "fatal")

_T = TypeVar("_T")
OfRows = tuple[Callable[..., _T], tuple[Table, ...]]
"""A function, and the tables of whose rows of one file it is called."""


def logged_verdict(incidents: pd.DataFrame, log: pd.DataFrame) -> FileVerdict:
    """The first trouble in output without a failure of its own, else that the log has none.

    Args:
        incidents: Rows of INCIDENTS of one file.
        log: Rows of HOROVOD_LOG of the same file.
    """
    severe = log[log["level"].isin(_SEVERE).to_numpy()]
    if incidents.empty and severe.empty:
        if log.empty:
            return FileVerdict("")
        clean = f"Nothing wrong found in {units.counted(len(log), 'line')} of Horovod's log"
        return FileVerdict(f"{clean}; hvdprof reads no rate in this file.", gravity=Gravity.CLEAN)
    first = (severe if incidents.empty else incidents).iloc[0]
    lead = str(first["level"]).capitalize() if incidents.empty else "Warning"
    message = str(first["message"]).strip().rstrip(".")
    return FileVerdict(f"{lead} in line {first['line']}: {message}.", gravity=Gravity.WARNING)


def autotune_verdict(samples: pd.DataFrame) -> FileVerdict:
    """The best sample of Horovod's autotuning, and that of each log where there are several.

    Args:
        samples: Rows of AUTOTUNE of one file.
    """
    if samples.empty:
        return FileVerdict("")
    best = samples.iloc[int(samples["score"].to_numpy().argmax())]
    number, logs = len(samples), int(samples["run"].nunique())
    of = f"{units.counted(number, 'sample')}{f' of {logs} tunings' if logs > 1 else ''}"
    threshold = units.byte_size(float(best["fusion_threshold_mb"]) * 2**20)
    settings = (
        f"cycle time {units.milliseconds(best['cycle_time_ns'])}, fusion threshold {threshold}"
    )
    score = units.of_unit(float(best["score"]), "MB/s")
    caveat = "" if samples["final"].any() else "The log does not show that tuning finished."
    return FileVerdict(f"Best of {of}: {settings} ({score} reduced).", caveat)


def nccl_verdict(recording: NcclRecording, findings: pd.DataFrame) -> FileVerdict:
    """What the NCCL logs of a job show where no rule warns, and what they lack.

    ``Nothing wrong found`` takes complete inits and connections; less shows too little for it.

    Args:
        recording: The logs of one job.
        findings: FINDINGS on them, notes alone.
    """
    ranks, connections = recording.ranks, recording.connections
    complete, seen = int(ranks["complete"].sum()), len(ranks)
    lines = int(recording.line_kinds["count"].sum())
    grave = int(grave_problems(recording)["count"].sum())
    sizes = recording.communicators["num_ranks"].dropna()
    shown = [f"NCCL {versions_named(recording)}" if len(recording.versions) else ""]
    shown += [units.counted(int(sizes.max()), "rank") if len(sizes) else ""]
    shown += [network_name(recording)]
    shown += [f"Init COMPLETE of {complete} of {seen} ranks seen" if complete < seen else ""]
    lacks = ["communicator"] * sizes.empty + ["connection"] * connections.empty + ["bandwidth"]
    if grave:
        lead = f"No known cause for {units.counted(grave, 'line')} that NCCL prints as trouble"
    elif complete and complete >= seen and len(connections) and findings.empty:
        lead = "Nothing wrong found"
    else:
        lead = f"No warning or error in {units.counted(lines, 'NCCL line')}"
    text = ": ".join(filter(None, (lead, ", ".join(filter(None, shown)))))
    notes = ""
    if len(findings):
        more = f" and {units.count(len(findings) - 1)} more" if len(findings) > 1 else ""
        notes = f" Note: {findings['phrase'].iloc[0]}{more}."
    listed = " or ".join(filter(None, (", ".join(lacks[:-1]), lacks[-1])))
    return FileVerdict(
        f"{text}; hvdprof reads no {listed} in this file.{notes}", gravity=Gravity.CLEAN
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """What files of one format say.

    Attributes:
        source: The format.
        facts: Their facts; of files without a row in these tables there is none.
        verdict: The first sentence.
        unanswered: What is not in the file, and the command that gives it.
        others: Tables that its reader fills beside those of the functions.
        pages: The pages of files that speak together; None where each file has its own.
    """

    source: sources.Source
    facts: Sequence[OfRows[list[Fact]]] = ()
    verdict: OfRows[FileVerdict] | None = None
    unanswered: Sequence[OfRows[tuple[Unanswered, ...]]] = ()
    others: tuple[Table, ...] = ()
    pages: Callable[[Run, Sequence[FrameRow]], list[FilePage]] | None = None
    tables: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        used = [self.verdict] if self.verdict else []
        names = {table.name for _, tables in (*self.facts, *used) for table in tables}
        object.__setattr__(self, "tables", frozenset(names | {one.name for one in self.others}))


def _of(function: Callable[..., _T], *tables: Table) -> OfRows[_T]:
    return function, tables


# fmt: off
_RAS = (calls.COLLECTIVE_PROGRESS, calls.RAS_STATEMENTS)
_TIMELINE = (
    timelines.TIMELINES, timelines.TENSOR_USES, timelines.EXECUTIONS, timelines.INFERRED_STEPS,
    timelines.PENDING_NEGOTIATIONS,
)
_ITERATIONS = (printed.TRAINING_ITERATIONS, printed.RANK_TIMERS, printed.STRAGGLER_REPORTS)
_DUMPED = (calls.COLLECTIVE_PROGRESS, calls.RANK_COLLECTIVES)
_INSPECTED = (calls.INSPECTOR_COLLECTIVES, calls.RANK_COLLECTIVES)
_RECORDED = (run_tables.STEPS, run_tables.RANKS, run_tables.SEGMENTS)
ANSWERS = (
    Answers(sources.TIMELINE, others=_TIMELINE, pages=timeline_pages),
    Answers(sources.TRACE, others=(*_RECORDED, calls.RANK_COLLECTIVES), pages=trace_pages),
    Answers(sources.PHASES, others=_RECORDED, pages=trace_pages),
    Answers(sources.FLIGHT_RECORDER, others=_DUMPED, pages=dump_pages),
    Answers(sources.INSPECTOR, others=_INSPECTED, pages=inspector_pages),
    Answers(sources.NCCL_TESTS,
        [_of(facts_of.nccl_run_facts, printed.NCCL_TEST_RUNS)],
        _of(log_verdict.nccl_tests_verdict, printed.NCCL_TEST_RUNS, printed.NCCL_TESTS)),
    Answers(sources.RAS, [_of(ras_facts, *_RAS)], _of(ras_verdict, *_RAS)),
    Answers(sources.STACKS,
        [_of(stacks.stack_facts, printed.RANK_STACKS)],
        _of(stacks.stack_verdict, printed.RANK_STACKS), pages=stacks.stack_pages),
    Answers(sources.FR_TRACE,
        [_of(stacks.fr_trace_facts, calls.COLLECTIVE_PROGRESS)],
        _of(stacks.fr_trace_verdict, calls.COLLECTIVE_PROGRESS)),
    Answers(sources.BENCH,
        [_of(facts_of.allreduce_bench_facts, printed.ALLREDUCE_BENCH)],
        _of(log_verdict.allreduce_bench_verdict, printed.ALLREDUCE_BENCH)),
    Answers(sources.NSYS, [
            _of(nsys_report.nsys_facts, nsys.NSYS_GPUS),
            _of(nsys_report.nsys_step_facts, nsys.NSYS_STEPS),
            _of(nsys_report.nsys_kernel_facts, nsys.NSYS_NCCL_KERNELS),
            _of(nsys_report.nsys_call_facts, nsys.NSYS_NCCL_CALLS),
        ],
        _of(nsys_report.nsys_verdict, nsys.NSYS_GPUS), [
            _of(nsys_report.nsys_unanswered, nsys.NSYS_GPUS),
            _of(nsys_report.nsys_calls_unanswered, nsys.NSYS_NCCL_CALLS),
        ], (calls.RANK_COLLECTIVES,)),
    Answers(sources.COMMS,
        [_of(training.comms_facts, printed.COMMS_LOG)],
        _of(training.comms_verdict, printed.COMMS_LOG),
        [_of(training.comms_unanswered, printed.COMMS_LOG)]),
    Answers(sources.TRAINING, [
            _of(training.iteration_facts, printed.TRAINING_ITERATIONS),
            _of(training.timer_facts, printed.RANK_TIMERS),
            _of(training.straggler_facts, printed.STRAGGLER_REPORTS),
        ],
        _of(training.training_verdict, *_ITERATIONS),
        [_of(training.iterations_unanswered, printed.TRAINING_ITERATIONS)], (log.THROUGHPUT,)),
    Answers(sources.THROUGHPUTS,
        [_of(facts_of.throughput_facts, log.THROUGHPUT)],
        _of(rate_report.throughput_verdict, log.THROUGHPUT)),
    Answers(sources.RATES,
        [_of(rate_report.rate_facts, log.PRINTED_RATES)],
        _of(rate_report.rates_verdict, log.PRINTED_RATES),
        others=(log.THROUGHPUT, printed.TRAINING_ITERATIONS)),
    Answers(sources.AUTOTUNING,
        [_of(facts_of.autotune_facts, log.AUTOTUNE)], _of(autotune_verdict, log.AUTOTUNE)),
    Answers(sources.OUTPUT, [
            _of(facts_of.log_facts, log.HOROVOD_LOG),
            _of(facts_of.stall_facts, log.STALLS),
            _of(facts_of.incident_facts, log.INCIDENTS),
            _of(facts_of.timeout_facts, calls.COLLECTIVE_TIMEOUTS),
        ],
        _of(logged_verdict, log.INCIDENTS, log.HOROVOD_LOG)),
    Answers(sources.NCCL_LOG, others=(*NCCL_TABLES, *NCCL_CALL_TABLES)),
    Answers(sources.RECORDER, others=_RECORDED, pages=recording_pages),
)
"""In the order in which they speak for a file that holds several; facts stand as in SOURCES."""
# fmt: on
ANSWERS_OF = {answers.source: answers for answers in ANSWERS}
