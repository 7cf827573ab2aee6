"""The forecast of a job whose inputs are known: Monte Carlo over all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hvdprof import units
from hvdprof.analyze.predict.costs.stated_links import KnownLinks, Scenario, scenarios
from hvdprof.analyze.predict.draws import Draws, draw, draw_model_error, under
from hvdprof.analyze.predict.forecast_basis import question_assumptions
from hvdprof.analyze.predict.forecast_rows import (
    CellName,
    Row,
    band_width,
    cause_rows,
    drawn_limits,
    forecast_row,
    measurement_rows,
    width_rows,
)
from hvdprof.analyze.predict.next_measurement import MeasuredSoFar, next_measurements, width_sources
from hvdprof.analyze.predict.own_work import JobInputs
from hvdprof.analyze.predict.predicted_step import PredictedStep, StepModel, Target
from hvdprof.analyze.predict.what_if import COMPRESSION, NONE, checked, targets
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Float64s
from hvdprof.model.results.forecast import Forecast, Limits, Missing, Question
from hvdprof.model.tables.forecast_tables import (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_MEASURE,
    FORECAST_WIDTHS,
    QUANTILES,
)

WIDTH_DRAWS = 600
"""Draws per input of the Sobol indices: a standard error of about 4 % of the variance."""

LEAST_TAIL = 0.005
"""Share of a step below which an unknown tail of the jitter does not open the band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a forecast prints of the job beside its numbers.

    Attributes:
        baseline: Reference of the efficiency.
        measured: Measured efficiency of each number of ranks that the fit uses.
        excluded_np: Measured numbers of ranks that it does not use.
        known_links: Which links are those of the job.
        algorithm: Algorithm of the collectives.
        algorithm_probability: Its weight, NaN where it was not fitted.
        so_far: What was measured; None without a run.
        assumptions: What the inputs rest on.
        missing: What is not known of the job.
    """

    baseline: str
    measured: Mapping[int, float] = field(default_factory=dict)
    excluded_np: tuple[int, ...] = ()
    known_links: KnownLinks = field(default_factory=KnownLinks)
    algorithm: str = ""
    algorithm_probability: float = NAN
    so_far: MeasuredSoFar | None = None
    assumptions: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


def job_forecast(job: JobInputs, question: Question, facts: JobFacts) -> Forecast:
    """The forecast of all sizes and networks of a question.

    Args:
        job: What is known of the job.
        question: What to predict.
        facts: What is printed beside it.

    Raises:
        UsageError: The question cannot be answered.
    """
    question = checked(question)
    ranks_per_host = question.ranks_per_host or job.ranks_per_host
    wanted = targets(job, question, ranks_per_host)
    networks = scenarios(
        question.links,
        question.intra,
        facts.known_links,
        is_one_host=question.sizes[-1] <= ranks_per_host,
    )
    is_searched = job.num_ranks not in question.sizes and job.num_ranks < question.sizes[-1]
    asked = (job.num_ranks,) if is_searched else ()
    reference = targets(job, replace(question, sizes=asked), ranks_per_host)
    tables = _Tables(job, question, facts, wanted, reference)
    for network in networks:
        tables.add(network)
    base = job.own.baseline
    return Forecast(
        question=replace(question, ranks_per_host=ranks_per_host),
        baseline=facts.baseline,
        baseline_samples_per_s=tables.baseline_np * base.batch_size / base.step_ns * 1e9,
        measured_np=tuple(sorted(facts.measured)),
        excluded_np=facts.excluded_np,
        algorithm=facts.algorithm,
        algorithm_probability=facts.algorithm_probability,
        scenarios=tuple(network.name for network in networks),
        rows=FORECAST.frame(tables.rows),
        causes=FORECAST_CAUSES.frame(tables.causes),
        widths=FORECAST_WIDTHS.frame(tables.widths),
        measurements=FORECAST_MEASURE.frame(tables.measurements),
        limits=tuple(tables.limits),
        assumptions=(
            *facts.assumptions,
            *question_assumptions(question, facts.algorithm, facts.algorithm_probability),
            *tables.influence(),
        ),
        missing=facts.missing,
        tail_index=job.spread.jitter.tail_index,
    )


def _num_ranks(step: PredictedStep) -> int:
    return step.target.num_ranks


class _Tables:
    """The rows of a forecast, scenario by scenario."""

    def __init__(
        self,
        job: JobInputs,
        question: Question,
        facts: JobFacts,
        wanted: Sequence[Target],
        reference: Sequence[Target],
    ) -> None:
        self._job, self._question, self._facts = job, question, facts
        self._model, self._last = StepModel(job, wanted), StepModel(job, wanted[-1:])
        self._reference = StepModel(job, reference) if reference else None
        counts = (question.num_draws, *[min(WIDTH_DRAWS, question.num_draws)] * 2)
        self._draws = [
            draw(
                job,
                np.random.default_rng(question.seed + number),
                count,
                wanted[-1].topology,
                question.past_errors,
            )
            for number, count in enumerate(counts)
        ]
        self.baseline_np = int(facts.baseline.rpartition("=")[2] or 1)
        self.rows: list[Row] = []
        self.causes: list[Row] = []
        self.widths: list[Row] = []
        self.measurements: list[Row] = []
        self.limits: list[Limits] = []
        self._widened: list[float] = []

    def influence(self) -> Sequence[str]:
        """A sentence on what the errors of earlier forecasts did to the bands."""
        past, last = self._question.past_errors, self._question.sizes[-1]
        return [past_influence(past, self._widened, last)] if past else []

    def add(self, network: Scenario) -> None:
        """The rows of one scenario."""
        question = self._question
        name = CellName(
            question.model,
            question.engine,
            question.settings.get(COMPRESSION, NONE),
            network.name,
        )
        drawn = under(self._draws[0], network)
        steps = self._model.steps(drawn)
        for step in steps:
            self.rows.append(self._row(name, step))
            self.causes += cause_rows(name, step)
        # The first doubling beyond the reference may be the knee already.
        searched = sorted([*self._at_reference(drawn), *steps], key=_num_ranks)
        self.limits.append(
            drawn_limits(
                network.name,
                [_num_ranks(step) for step in searched],
                np.stack([self._with_open_end(step) for step in searched], axis=1),
                question.target,
                min(self._job.num_ranks, question.sizes[-1]),
            )
        )
        self._add_widths(name, network, steps[-1])
        if question.past_errors:
            rng = np.random.default_rng(self._question.seed)
            reach = max(self._question.sizes[-1] / self._job.num_ranks, self._job.num_ranks)
            count = len(drawn.contention.share)
            alone = self._model.steps(replace(drawn, model=draw_model_error(rng, count, reach)))[-1]
            self._widened.append(band_width(steps[-1].efficiency) - band_width(alone.efficiency))

    def _at_reference(self, draws: Draws) -> list[PredictedStep]:
        return list(self._reference.steps(draws)) if self._reference else []

    def _with_open_end(self, step: PredictedStep) -> Float64s:
        """[draws] The efficiency; where the band is open, its lowest draws have no value."""
        efficiency = step.efficiency
        if not self._is_open(step.target):
            return efficiency
        return np.where(efficiency > np.quantile(efficiency, QUANTILES["p5"]), efficiency, np.nan)

    def _is_open(self, target: Target) -> bool:
        """At measured sizes the slowest rank was measured, too."""
        size = target.num_ranks
        return size > self._job.num_ranks and self._job.spread.jitter.is_open(size, LEAST_TAIL)

    def _row(self, name: CellName, step: PredictedStep) -> Row:
        size = step.target.num_ranks
        return forecast_row(
            name,
            step,
            extrapolation=size / self._job.num_ranks,
            is_open=self._is_open(step.target),
            target=self._question.target,
            measured=self._facts.measured.get(size, NAN),
        )

    def _add_widths(self, name: CellName, network: Scenario, last: PredictedStep) -> None:
        def efficiency(draws: Draws) -> Float64s:
            return self._last.steps(draws)[0].efficiency

        first, second = (under(draws, network) for draws in self._draws[1:])
        sources = width_sources(efficiency, first, second)
        band, size = band_width(last.efficiency), last.target.num_ranks
        self.widths += width_rows(name, size, sources, band)
        if self._facts.so_far is not None:
            found = next_measurements(self._facts.so_far, sources, band, size)
            self.measurements += measurement_rows(name, size, found, band)


_LEAST_POINTS = 0.5


def past_influence(
    errors: Sequence[tuple[float, float]], changes: Sequence[float], num_ranks: int
) -> str:
    """How far off earlier forecasts were, and how much wider or narrower that makes the band.

    Args:
        errors: ``Question.past_errors``; not empty.
        changes: For each network, the width of the 90 % band of the efficiency minus what it is
            without these errors.
        num_ranks: The size of these bands.
    """
    off = float(np.median([abs(math.expm1(error)) for _, error in errors]))
    lead = (
        f"{units.counted(len(errors), 'earlier forecast')} of this folder "
        f"{'was' if len(errors) == 1 else 'were'} off by {units.percent(off)}"
    )
    lead += " in the median" if len(errors) > 1 else ""
    points = [100 * change for change in changes]
    largest = max(points, key=abs)
    band = f"the 90 % band on {units.count(num_ranks)} ranks"
    if abs(largest) < _LEAST_POINTS:
        return f"{lead}: {band} stays as wide."
    way = "wider" if largest > 0 else "narrower"
    most = "up to " if len(points) > 1 else ""
    return f"{lead}: {band} is {most}{abs(largest):.0f} points {way}."
