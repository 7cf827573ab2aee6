"""From a run to its finished analysis: the list of steps, and the verdict on what they fill."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from hvdprof.analyze.causes.ceilings import ceilings, pop
from hvdprof.analyze.causes.line_causes import line_tables
from hvdprof.analyze.causes.waterfall_diff import engine_diffs
from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.communication.matched_collectives import (
    collective_bandwidths,
    matched_collectives,
)
from hvdprof.analyze.communication.network import network_tables
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.run_findings import by_rules
from hvdprof.analyze.findings.run_rules import (
    causes_rules,
    communication_rules,
    evaluation_rules,
    evidence_rules,
    exposed_rules,
    memory_rules,
    named_cause_rules,
    network_rules,
    settings_rules,
    shared_phase_rules,
    stall_rules,
    watchdog_rules,
)
from hvdprof.analyze.ranks.stragglers import live_events
from hvdprof.analyze.run_basis import (
    Basis,
    Step,
    machine_frame,
    replays_frame,
    scaling_frames,
    waiting_frames,
    waterfall_frame,
)
from hvdprof.analyze.scaling.toggles import toggles
from hvdprof.analyze.steps.elastic_sessions import session_tables
from hvdprof.analyze.verdict.answer import answer
from hvdprof.analyze.verdict.busy_machine import without_fixes
from hvdprof.analyze.verdict.caveats import with_caveats
from hvdprof.analyze.verdict.data_quality import warnings_of
from hvdprof.analyze.verdict.failures import failed_segments
from hvdprof.analyze.verdict.loss_cost import price_of, with_price
from hvdprof.model.cached_rows import LazyFrames
from hvdprof.model.file_page import FilePage
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.schema import Table
from hvdprof.model.tables.collective_tables import COLLECTIVE_TABLES, COLLECTIVES
from hvdprof.model.tables.finding_tables import FINDINGS, LIVE_EVENTS, WATCHED_EVENTS
from hvdprof.model.tables.line_tables import LINE_CAUSES, LINE_TABLES, LINES
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_BANDWIDTHS,
    MATCHED_COLLECTIVES,
    RANK_COLLECTIVES,
)
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, TURNS, WAITS
from hvdprof.model.tables.run_tables import STEPS as RANK_STEPS
from hvdprof.model.tables.sample_tables import (
    DEVICE_SAMPLES,
    NET_HOSTS,
    NET_LINKS,
    NET_TRANSFERS,
    NET_USE,
    RANK_MACHINE,
    RANK_SAMPLES,
)
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES, TIMELINES
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
from hvdprof.model.tables.window_tables import RESETS, SESSION_RANKS, SESSIONS

_MEASURED = (SEGMENTS, RANK_STEPS, TURNS)
_WAITED = (*_MEASURED, EVENTS, WAITS, ARRIVALS, RANK_SAMPLES, DEVICE_SAMPLES)


STEPS: tuple[Step, ...] = (
    Step(
        "how long is a step, and how certain is that",
        (JOB_STEPS, LAUNCHES),
        _MEASURED,
        lambda basis: {
            JOB_STEPS.name: basis.counted.of_job,
            LAUNCHES.name: basis.counted.by_launch,
        },
        (stall_rules.stalled_steps, stall_rules.slow_start),
        "explain/efficiency.md",
    ),
    Step(
        "how well does it scale, and which part of the step grows",
        (SCALING, LOSSES),
        _MEASURED,
        scaling_frames,
        (
            causes_rules.size_cliff,
            settings_rules.timeline_slows,
            settings_rules.fp16_without_gain,
            settings_rules.adasum_costs,
            evidence_rules.oversubscribed,
        ),
        "explain/efficiency.md",
    ),
    Step(
        "who waited for whom",
        (CLOCKS, COLLECTIVE_ARRIVALS, CAUSED_WAIT, STRAGGLERS, LATENESS, RANK_COSTS),
        _WAITED,
        waiting_frames,
        (evidence_rules.clocks_contradict,),
        "explain/waiting.md",
    ),
    Step(
        "where does the lost time go",
        (WATERFALL,),
        (*_WAITED, EXECUTIONS),
        waterfall_frame,
        (named_cause_rules.named_causes, causes_rules.jitter, causes_rules.compute_inflation),
        "explain/waterfall.md",
    ),
    Step(
        "what is lost to unequal work, waiting and transfer, and what would be without one of them",
        (POP, CEILINGS),
        _WAITED,
        lambda basis: {
            table.name: make(basis.counted.times, basis.waits.works, basis.counted.facts)
            for table, make in ((POP, pop), (CEILINGS, ceilings))
        },
        page="explain/waterfall.md",
    ),
    Step(
        "what do fp16, Adasum and DDP change",
        (TOGGLES,),
        (*_WAITED, SCALING),
        lambda basis: toggles(
            basis.counted.times,
            basis.waits.works,
            basis.run.segments,
            basis.table(SCALING.name),
            basis.curves,
        ),
        page="explain/efficiency.md",
    ),
    Step(
        "which cause differs between Horovod and DDP",
        (ENGINE_DIFFS,),
        (WATERFALL,),
        lambda basis: engine_diffs(basis.table(WATERFALL.name)),
        page="explain/waterfall.md",
    ),
    Step(
        "what would other bucket sizes change",
        (REPLAYS,),
        (*_WAITED, COLLECTIVE_ARRIVALS, TENSOR_USES, EXECUTIONS),
        replays_frame,
        page="explain/waterfall.md",
    ),
    Step(
        "what do collectives cost, and how far does computation hide them",
        COLLECTIVE_TABLES,
        (
            *_MEASURED,
            *(EVENTS, EXECUTIONS, TENSOR_USES, TIMELINES, JOB_STEPS, COLLECTIVE_ARRIVALS),
        ),
        lambda basis: communication_tables(
            basis.run, basis.table(JOB_STEPS.name), basis.table(COLLECTIVE_ARRIVALS.name)
        ),
        (
            shared_phase_rules.input_bound,
            shared_phase_rules.outside_phases,
            settings_rules.fusion_too_small,
            settings_rules.cycle_too_long,
            settings_rules.cache_off,
            settings_rules.autotune_active,
            settings_rules.cache_evictions,
            communication_rules.many_small_messages,
            communication_rules.fusion_too_large,
        ),
        "explain/collectives.md",
    ),
    Step(
        "which lines of code does the time go to",
        (LINES, LINE_CAUSES),
        (*_WAITED, *LINE_TABLES, EXECUTIONS, WATERFALL),
        lambda basis: line_tables(basis.run, basis.waits, basis.table(WATERFALL.name)),
        page="howto/lines.md",
    ),
    Step(
        "what did the machine do to each rank",
        (RANK_MACHINE,),
        (*_WAITED, LAUNCHES),
        machine_frame,
        (
            memory_rules.memory_grows,
            memory_rules.host_swaps,
            memory_rules.allocation_retries,
            memory_rules.unequal_memory,
            memory_rules.gpu_errors,
        ),
        "howto/machine.md",
    ),
    Step(
        "what does the network give, whose link is slow, what does the job make of it",
        (NET_LINKS, NET_HOSTS, NET_USE),
        (NET_TRANSFERS, COLLECTIVES, SEGMENTS, RANKS),
        lambda basis: network_tables(basis.run, basis.table(COLLECTIVES.name)),
        (network_rules.slow_host_link, network_rules.far_host, exposed_rules.exposed_transfer),
        "howto/net.md",
    ),
    Step(
        "what was seen while the job ran, and do the recorded steps bear it",
        (LIVE_EVENTS,),
        (WATCHED_EVENTS, RANK_STEPS),
        lambda basis: {
            LIVE_EVENTS.name: live_events(
                basis.run.table(WATCHED_EVENTS.name), basis.run.table(RANK_STEPS.name)
            )
        },
        page="howto/watch.md",
    ),
    Step(
        "what does a reset of an elastic job cost",
        (SESSIONS, RESETS),
        (SESSION_RANKS, RANK_STEPS, JOB_STEPS),
        lambda basis: session_tables(basis.run, basis.table(JOB_STEPS.name)),
        page="howto/elastic.md",
    ),
    Step(
        "who submitted a collective last, rank by rank",
        (MATCHED_COLLECTIVES,),
        (RANK_COLLECTIVES, CLOCKS),
        lambda basis: matched_collectives(
            basis.table(RANK_COLLECTIVES.name), basis.table(CLOCKS.name)
        ),
        page="explain/collectives.md",
    ),
    Step(
        "which bus bandwidth do collectives reach",
        (COLLECTIVE_BANDWIDTHS,),
        (MATCHED_COLLECTIVES,),
        lambda basis: collective_bandwidths(basis.table(MATCHED_COLLECTIVES.name)),
        page="explain/collectives.md",
    ),
    Step(
        "what is wrong, and what to do",
        (FINDINGS,),
        (SEGMENTS, RANKS),
        lambda basis: findings(basis),
        (
            evaluation_rules.evaluations,
            watchdog_rules.stalled_tensors,
            watchdog_rules.unequal_batches,
            settings_rules.same_hostname,
            settings_rules.tail_lost,
            settings_rules.no_rank_evidence,
            evidence_rules.faults_injected,
            evidence_rules.uneven_steps,
        ),
        "reference/findings.md",
    ),
)
RULES = tuple(rule for step in STEPS for rule in step.rules)


def findings(evidence: Evidence) -> pd.DataFrame:
    """FINDINGS of a run: by the rules of all steps, and of its logs."""
    return by_rules(evidence, RULES)


def analyze_run(run: Run, price: float | None = None) -> RunAnalysis:
    """The finished analysis of a run: the tables of ``STEPS``, and the verdict on them.

    Args:
        run: Any run.
        price: Of a GPU, or of a rank that computes on none, per hour; that of the run, else of the
            environment, when None.

    Raises:
        UsageError: The price is no number, or negative.
    """
    price = price_of(run.manifest, price)
    tables, unread = _tables(run)
    failed = failed_segments(run.manifest)
    found = tables[FINDINGS.name]
    pages = _pages(run, found)
    of_run = answer(run, tables, failed, pages)
    if of_run.is_too_busy:
        found = without_fixes(found)
    of_run = with_price(run, of_run, found, tables[WATERFALL.name], price)
    own = (LAUNCHES, SCALING, LOSSES, JOB_STEPS, FINDINGS)
    launches, by_cell, lost, of_job, _ = (tables.pop(table.name) for table in own)
    return RunAnalysis(
        run=run,
        verdict=with_caveats(run, of_run, failed, found, tables[WATERFALL.name]),
        launches=launches,
        scaling=by_cell,
        losses=lost,
        skipped=tuple(run.manifest.skipped),
        failed=failed,
        warning_notes=warnings_of(run, launches, by_cell, failed),
        job_steps=of_job,
        findings=found,
        derived=LazyFrames(tables, unread, {}) if unread else tables,
        pages=pages,
    )


def _pages(run: Run, found: pd.DataFrame) -> tuple[FilePage, ...]:
    if FILES.name not in run.frames:
        return ()
    # Runs without files of other tools need none of its modules.
    from hvdprof.analyze.files.file_analysis import file_pages

    return file_pages(run, found)


def _tables(run: Run) -> tuple[dict[str, pd.DataFrame], dict[str, Callable[[], pd.DataFrame]]]:
    """The tables of ``STEPS``; apart, what makes those of files that are not yet read.

    What needs a table of the second kind is left without rows: such calls are those of the Flight
    Recorder, whose ends are unknown, so they have no bandwidth.
    """
    tables: dict[str, pd.DataFrame] = {}
    unread: dict[str, Callable[[], pd.DataFrame]] = {}
    basis = Basis(run, tables)
    for step in STEPS:
        needed = {table.name for table in step.needs}
        if needed & run.unread:
            known = Basis(run, {name: tables[name] for name in needed & tables.keys()})
            unread |= {table.name: partial(_one, step, known, table) for table in step.fills}
        elif not needed & unread.keys():
            tables.update(step.frames(basis))
    return tables, unread


def _one(step: Step, basis: Basis, table: Table) -> pd.DataFrame:
    return step.frames(basis)[table.name]
