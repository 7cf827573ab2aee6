"""From a run to its finished analysis: the list of steps."""

from collections.abc import Mapping

import pandas as pd

from hvdprof.analyze.causes.bucket_replay import bucket_replays
from hvdprof.analyze.causes.ceilings import ceilings
from hvdprof.analyze.causes.pop import pop
from hvdprof.analyze.causes.transfer_split import transfer_splits
from hvdprof.analyze.causes.waterfall import waterfall
from hvdprof.analyze.causes.waterfall_diff import engine_diffs
from hvdprof.analyze.communication.collective_bandwidths import collective_bandwidths
from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.communication.matched_collectives import matched_collectives
from hvdprof.analyze.communication.network import network_tables, network_verdict
from hvdprof.analyze.files.file_analysis import file_pages
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.run_findings import findings
from hvdprof.analyze.lines.line_tables import line_tables
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.scaling.efficiency import scaling
from hvdprof.analyze.scaling.learning import final_losses, loss_curves
from hvdprof.analyze.scaling.losses import losses
from hvdprof.analyze.scaling.toggles import toggles
from hvdprof.analyze.steps.cells import throughput_cells
from hvdprof.analyze.steps.elastic_sessions import session_tables
from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.analyze.steps.step_work import step_work, with_all_ranks
from hvdprof.analyze.stragglers.stragglers import lateness_table
from hvdprof.analyze.stragglers.timeline_writer import without_timeline_writer
from hvdprof.analyze.stragglers.waiting import waiting_tables
from hvdprof.analyze.verdict.agreement import cell_account
from hvdprof.analyze.verdict.attached_verdict import attached_verdict, led_by_errors
from hvdprof.analyze.verdict.busy_machine import busy_sentences, without_fixes
from hvdprof.analyze.verdict.caveats import with_caveats
from hvdprof.analyze.verdict.data_quality import warnings_of
from hvdprof.analyze.verdict.failures import failed_segments
from hvdprof.analyze.verdict.run_verdict import CellChecks, verdict
from hvdprof.analyze.verdict.traced_verdict import traced_verdict, without_rates
from hvdprof.model.cached_rows import LazyFrames
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.net_tables import NET_LINKS
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_BANDWIDTHS,
    MATCHED_COLLECTIVES,
    RANK_COLLECTIVES,
)
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import (
    CAUSED_WAIT,
    CLOCKS,
    COLLECTIVE_ARRIVALS,
    LATENESS,
    RANK_COSTS,
    STRAGGLERS,
)
from hvdprof.model.tables.waterfall_tables import (
    CEILINGS,
    ENGINE_DIFFS,
    POP,
    REPLAYS,
    TOGGLES,
    WATERFALL,
)
from hvdprof.rundir.attached import has_traces


def analyze_run(run: Run) -> RunAnalysis:
    """The finished analysis of a run.

    1.  The time of every step of the job, all ranks together, without disturbed turns.
    2.  The steady steps of each launch, their mean and its error.
    3.  The step time of each cell from its launches.
    4.  Throughput and efficiency of each cell, with training loss and trace overhead.
    5.  Lost time by part of the step and by cause.
    6.  Caused wait, stragglers, and the potential gain of remedies.
    7.  Collectives, their overlap with computation, and the use of the network.
    8.  Cost of resets of an elastic job; data quality, and the verdict.
    9.  Findings: problem, evidence, cost, and action.
    """
    measured = measured_launches(run)
    of_job, times, facts = measured.of_job, measured.times, measured.facts
    curves = loss_curves(run.steps)
    learned = final_losses(curves, throughput_cells(times))
    by_cell = scaling(times, facts, learned, _sent_bytes(run))
    if has_traces(run.manifest):
        by_cell = without_rates(run, by_cell)
    lost = losses(times, facts)
    recorded = step_work(run.steps, run.events, of_job, run.table(WAITS.name))
    waits = waiting_tables(run.arrivals, with_all_ranks(recorded, run.segments))
    works = waits.works
    derived = {
        WATERFALL.name: waterfall(
            times,
            waits.times,
            waits.named,
            facts,
            transfer_splits(times, works, run.table(EXECUTIONS.name)),
        ),
        POP.name: pop(times, works, facts),
        CEILINGS.name: ceilings(times, works, facts),
        TOGGLES.name: toggles(times, works, run.segments, by_cell, curves),
        REPLAYS.name: bucket_replays(
            works,
            waits.collective_arrivals,
            run.table(TENSOR_USES.name),
            run.table(EXECUTIONS.name),
            run.events,
        ),
        CLOCKS.name: waits.clocks,
        COLLECTIVE_ARRIVALS.name: waits.collective_arrivals,
        CAUSED_WAIT.name: waits.caused_wait,
        STRAGGLERS.name: without_timeline_writer(waits.stragglers, run.segments),
        LATENESS.name: lateness_table(
            {key: waits.times.get(key) or rank_times(work) for key, work in recorded.items()}
        ),
        RANK_COSTS.name: waits.rank_costs,
        **communication_tables(run, of_job, waits.collective_arrivals),
        **session_tables(run, of_job),
    }
    derived[ENGINE_DIFFS.name] = engine_diffs(derived[WATERFALL.name])
    derived |= network_tables(run, derived[COLLECTIVES.name])
    derived |= line_tables(run, waits, derived[WATERFALL.name])
    tables = derived | {
        SCALING.name: by_cell,
        LOSSES.name: lost,
        LAUNCHES.name: measured.by_launch,
        JOB_STEPS.name: of_job,
    }
    failed = failed_segments(run.manifest)
    found = findings(Evidence(run, tables))
    pages = file_pages(run, found) if FILES.name in run.frames else ()
    if has_traces(run.manifest):
        of_traces = traced_verdict(
            run, by_cell, derived[WATERFALL.name], found, waits.caused_wait, waits.rank_costs
        )
        answer = led_by_errors(run, of_traces, pages)
    else:
        answer = attached_verdict(
            run,
            verdict(
                by_cell,
                derived[WATERFALL.name],
                found,
                failed,
                run.manifest,
                checks=CellChecks(
                    busy_of=lambda cell: busy_sentences(run, cell),
                    account_of=lambda cell: cell_account(waits.rank_costs, run.segments, cell),
                ),
            ),
            pages,
        )
    if answer.is_too_busy:
        found = without_fixes(found)
    answer = network_verdict(run, derived[NET_LINKS.name], answer)
    return RunAnalysis(
        run=run,
        verdict=with_caveats(run, answer, failed, found, derived[WATERFALL.name]),
        launches=measured.by_launch,
        scaling=by_cell,
        losses=lost,
        skipped=tuple(run.manifest.skipped),
        failed=failed,
        warning_notes=warnings_of(run, measured.by_launch, by_cell, failed),
        job_steps=of_job,
        findings=found,
        derived=_with_matched(derived, run, waits.clocks),
        pages=pages,
    )


def _with_matched(
    derived: Mapping[str, pd.DataFrame], run: Run, clocks: pd.DataFrame
) -> Mapping[str, pd.DataFrame]:
    """The tables with MATCHED_COLLECTIVES; at its first use where its calls are not yet read.

    Such calls are those of the Flight Recorder, whose ends are unknown: they have no bandwidth.
    """

    def matched() -> pd.DataFrame:
        return matched_collectives(run.table(RANK_COLLECTIVES.name), clocks)

    if RANK_COLLECTIVES.name in run.unread:
        return LazyFrames(derived, {MATCHED_COLLECTIVES.name: matched}, {})
    of_ranks = matched()
    return {
        **derived,
        MATCHED_COLLECTIVES.name: of_ranks,
        COLLECTIVE_BANDWIDTHS.name: collective_bandwidths(of_ranks),
    }


def _sent_bytes(run: Run) -> dict[tuple[str, str], int]:
    columns = run.segments[["pass_id", "segment", "sent_bytes"]]
    return {
        (str(pass_id), str(segment)): int(sent)
        for pass_id, segment, sent in columns.itertuples(index=False, name=None)
    }
