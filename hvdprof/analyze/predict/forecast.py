"""The forecast of a run: what it measured as inputs of the Monte Carlo simulation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Algorithm
from hvdprof.analyze.predict.costs.cost_draws import GLOO, CostDraws, always
from hvdprof.analyze.predict.costs.ddp_buckets import ddp_buckets, recorded_buckets
from hvdprof.analyze.predict.costs.gradient_trace import (
    Gradients,
    GradientTrace,
    NoTrace,
    gradient_trace,
    recorded_gradients,
)
from hvdprof.analyze.predict.costs.link_evidence import LinkEvidence, link_evidence
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.costs.stated_links import KnownLinks, assumed_draws, with_rule
from hvdprof.analyze.predict.forecast_basis import (
    ForecastCells,
    forecast_cells,
    missing_inside_hosts,
    missing_of_run,
    run_assumptions,
)
from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.analyze.predict.job_forecast import JobFacts, job_forecast
from hvdprof.analyze.predict.measure_command import MeasureCommand, measure_command
from hvdprof.analyze.predict.next_measurement import MeasuredSoFar
from hvdprof.analyze.predict.own_work import JobInputs, Reduction, own_work
from hvdprof.analyze.predict.rank_spread import rank_spread
from hvdprof.analyze.predict.what_if import checked
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.measured_launches import full_command, measured_launches
from hvdprof.analyze.steps.step_time_ratio import baseline_name
from hvdprof.analyze.steps.step_work import StepWork, step_work, with_all_ranks
from hvdprof.analyze.verdict.caveats import carried_caveats
from hvdprof.errors import UsageError
from hvdprof.model.arrays import Float64s
from hvdprof.model.cell_key import DDP_ENGINE, LAUNCH, LaunchKey
from hvdprof.model.notes import NoteCode
from hvdprof.model.results.forecast import Forecast, Question
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.run_tables import GRADIENTS, WAITS
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from hvdprof.model.tables.waiting_tables import LASTING_PATTERNS, STRAGGLER_PATTERNS
from hvdprof.model.tables.window_tables import WINDOWS


def forecast(analysis: RunAnalysis, question: Question) -> Forecast:
    """The forecast of one model of a run.

    1.  The largest measured cell that is not oversubscribed is extrapolated (``forecast_basis``).
    2.  Its steps split into own work, differences of the ranks, and exposed communication.
    3.  Its gradients, their ready times, and the links come from its recordings.
    4.  The Monte Carlo simulation predicts every size (``job_forecast``).

    Raises:
        UsageError: The question cannot be answered from this run; the hint says what to measure.
    """
    question = checked(question)
    run = analysis.run
    measured = measured_launches(run)
    cells = forecast_cells(measured, question, run.manifest)
    command = measure_command(run.manifest, cells.model, cells.engine)
    _check_holds_steps(run, cells)
    recorded = step_work(run.steps, run.events, measured.of_job, run.table(WAITS.name))
    works = with_all_ranks(recorded, run.segments)
    rng = np.random.default_rng(question.seed)
    late = _late(analysis, cells, works, question)
    own = own_work(cells.reference, cells.baseline, cells.log_ratio, measured.facts, works, late)
    spread = rank_spread(
        [works[key] for key in cells.reference.launches if key in works],
        cells.host_of_rank(run),
        late,
        rng,
        keeps_stragglers=question.keeps_stragglers,
    )
    if own is None or spread is None:
        raise UsageError(
            f"The run holds no steady steps of all ranks at np={cells.reference.cell.np}.",
            hint=f"Measure more steps: {command.at(cells.measured_np, '--num-steps 50')}",
        )
    trace = _trace(analysis, cells, works)
    evidence = link_evidence(
        analysis, command, cells.measured_np, network_is_stated=bool(question.links)
    )
    links = _costs(evidence, question, rng)
    job = JobInputs(
        num_ranks=cells.reference.cell.np,
        ranks_per_host=cells.ranks_per_host(run),
        own=own,
        spread=spread,
        reduction=_reduction(run, cells, trace.gradients),
        offsets_ns=_offsets(trace),
        costs=links.costs,
        negotiates=_negotiates(run, cells),
    )
    named = replace(question, model=cells.model, engine=cells.engine)
    facts = _facts(analysis, cells, job, links, question, command)
    # Sizes with more ranks than cores are excluded, and named as such.
    notes = carried_caveats(analysis)
    caveats = tuple(note for note in notes if note.code != NoteCode.OVERSUBSCRIBED)
    return replace(job_forecast(job, named, facts), caveats=caveats)


def _check_holds_steps(run: Run, cells: ForecastCells) -> None:
    """Refuse light recordings: windows average out how ranks differ from step to step."""
    windows = run.table(WINDOWS.name)[LAUNCH].drop_duplicates()
    light = {(str(pass_id), str(segment)) for pass_id, segment in windows.to_numpy()}
    if light & set(cells.reference.launches):
        raise UsageError(
            f"The launches at np={cells.reference.cell.np} are light recordings: no single steps, "
            "and no gradients.",
            hint=f"Measure it without --light: {full_command(run)}",
        )


@dataclass(frozen=True, slots=True)
class _Links:
    evidence: LinkEvidence
    costs: CostDraws
    algorithm: str
    probability: float


def _costs(evidence: LinkEvidence, question: Question, rng: np.random.Generator) -> _Links:
    """Costs of collectives: fitted where any was measured, else assumed."""
    choice = evidence.choice(rng, question.num_draws)
    if choice is None:
        costs = assumed_draws(evidence.documented or GLOO, rng, question.num_draws)
        name, probability = (evidence.documented or GLOO).name, NAN
    else:
        costs, best = choice.draws, choice.candidates[0]
        name, probability = best.rule.name, best.weight
    if question.algorithm:
        costs = with_rule(costs, always(_algorithm(question.algorithm)))
        name, probability = question.algorithm, NAN
    return _Links(evidence, costs, name, probability)


def _algorithm(name: str) -> Algorithm:
    try:
        return Algorithm(name)
    except ValueError:
        raise UsageError(
            f"No algorithm is named {name!r}.",
            hint=f"Algorithms: {', '.join(Algorithm)}.",
        ) from None


def _late(
    analysis: RunAnalysis,
    cells: ForecastCells,
    works: Mapping[LaunchKey, StepWork],
    question: Question,
) -> dict[int, float]:
    """Mean lateness of each named straggler of the reference, ns."""
    launches = [key for key in cells.reference.launches if key in works]
    table = analysis.stragglers
    late: dict[int, list[float]] = {}
    patterns = LASTING_PATTERNS if question.keeps_stragglers else STRAGGLER_PATTERNS
    for row in table[table["pattern"].isin(patterns).to_numpy()].to_dict("records"):
        if (str(row["pass_id"]), str(row["segment"])) in launches:
            late.setdefault(int(row["rank"]), []).append(float(row["lateness_ns"]))
    return {rank: float(np.mean(times)) for rank, times in late.items()}


def _trace(
    analysis: RunAnalysis, cells: ForecastCells, works: Mapping[LaunchKey, StepWork]
) -> GradientTrace:
    """The launch of the reference with the most usable steps."""
    run = analysis.run
    found: list[GradientTrace] = []
    reasons = []
    for key in cells.launches_in_any_mode(run):
        sent = recorded_gradients(key, run.table(GRADIENTS.name), run.table(TENSOR_USES.name))
        one = gradient_trace(key, works.get(key), run.arrivals, run.events, sent)
        if isinstance(one, NoTrace):
            reasons.append(one.reason)
        else:
            found.append(one)
    if not found:
        raise UsageError(
            f"No launch at np={cells.reference.cell.np} says when gradients are ready: "
            f"{'; '.join(dict.fromkeys(reasons)) or 'none was recorded'}.",
            hint="Measure it again with this version of hvdprof.",
        )
    return max(found, key=lambda trace: len(trace.steps))


def _offsets(trace: GradientTrace) -> Float64s:
    """[steps, gradients] Ready on the last rank, minus the arrival of the last rank."""
    ready = (trace.backward_begin[:, None, :] + trace.ready).max(axis=2)
    arrived = trace.arrived.max(axis=1, keepdims=True)
    return np.asarray(np.minimum(ready - arrived, 0.0))


def _environment(run: Run, cells: ForecastCells) -> Mapping[str, str]:
    passes = {key[0] for key in cells.reference.launches}
    own = next((record.environment for record in run.manifest.passes if record.id in passes), {})
    return run.manifest.environment | own


def _reduction(run: Run, cells: ForecastCells, gradients: Gradients) -> Reduction:
    if cells.engine != DDP_ENGINE:
        settings = LoopSettings.from_environment(
            _environment(run, cells), cells.ranks_per_host(run)
        )
        return Reduction(gradients, settings)
    limits, _ = recorded_buckets(run)
    buckets = ddp_buckets(gradients.size_bytes, limits, gradients.dtype_codes)
    return Reduction(gradients, buckets=buckets)


def _negotiates(run: Run, cells: ForecastCells) -> Negotiates:
    if cells.engine == DDP_ENGINE:
        return Negotiates.NEVER
    capacity = _environment(run, cells).get("HOROVOD_CACHE_CAPACITY", "")
    if capacity == "0":
        return Negotiates.BY_GATHER
    passes = {key[0] for key in cells.reference.launches}
    controller = next(
        (record.controller for record in run.manifest.passes if record.id in passes), ""
    )
    return Negotiates.BY_GLOO_CACHE if controller == "gloo" else Negotiates.BY_MPI_CACHE


def _facts(
    analysis: RunAnalysis,
    cells: ForecastCells,
    job: JobInputs,
    links: _Links,
    question: Question,
    command: MeasureCommand,
) -> JobFacts:
    reference = cells.reference
    num_steps = reference.num_steps / max(len(reference.launches), 1)
    launch_s = math.exp(reference.log_step_time.value) / 1e9 * num_steps
    known = KnownLinks(links.evidence.measured("intra"), links.evidence.knows_network)
    return JobFacts(
        baseline=baseline_name(cells.baseline),
        measured=cells.efficiencies(analysis.scaling),
        excluded_np=cells.excluded_np,
        known_links=known,
        algorithm=links.algorithm,
        algorithm_probability=links.probability,
        so_far=MeasuredSoFar(
            command=command,
            sizes=cells.measured_np,
            ranks_per_host=job.ranks_per_host,
            num_launches=len(reference.launches),
            num_steps=round(num_steps),
            launch_s=launch_s,
            rank_degrees=job.spread.of_ranks.degrees,
            has_network=known.inter,
        ),
        assumptions=(
            *run_assumptions(job),
            *([recorded_buckets(analysis.run)[1]] if job.reduction.buckets is not None else []),
        ),
        missing=(
            *missing_of_run(cells, job, command),
            *missing_inside_hosts(question, job, command, known),
            *links.evidence.missing,
        ),
    )
