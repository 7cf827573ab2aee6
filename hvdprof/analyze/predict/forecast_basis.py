"""What a forecast rests on: the cells of a run, and what is assumed beyond them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.predict.costs.collective_cost import Algorithm
from hvdprof.analyze.predict.costs.stated_links import KnownLinks
from hvdprof.analyze.predict.measure_command import MeasureCommand, measure_command
from hvdprof.analyze.predict.own_work import JobInputs
from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import CellTime, throughput_cells
from hvdprof.analyze.steps.measured_launches import MeasuredLaunches
from hvdprof.analyze.steps.step_time_ratio import PairedRatios, baselines
from hvdprof.errors import UsageError
from hvdprof.model.cell_key import (
    COLLECTIVES_ENGINE,
    ENGINE_TITLES,
    FSDP_ENGINE,
    HOROVOD_ENGINE,
    TORCH_ENGINE,
    LaunchKey,
    of_base_cell,
)
from hvdprof.model.results.forecast import Missing, Question
from hvdprof.model.run import Run, standing
from hvdprof.model.tables.run_tables import RANKS
from hvdprof.rundir.manifest import Manifest, Status


@dataclass(frozen=True, slots=True)
class ForecastCells:
    """The cells behind a forecast.

    Attributes:
        reference: The largest cell without toggles that is not oversubscribed.
        baseline: That of the model, as in SCALING.
        log_ratio: Logarithm of the step time of the reference divided by that of the baseline.
        measured_np: Numbers of ranks that are used, ascending.
        excluded_np: Those that are not: oversubscribed.
    """

    reference: CellTime
    baseline: CellTime
    log_ratio: LogEstimate
    measured_np: tuple[int, ...]
    excluded_np: tuple[int, ...]

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.reference.cell.model

    @property
    def engine(self) -> str:
        """What reduces its gradients."""
        return self.reference.cell.engine

    def host_of_rank(self, run: Run) -> dict[int, str]:
        """The host of each rank of the reference, from its first launch."""
        ranks = run.table(RANKS.name)
        first = ranks[(ranks["pass_id"].astype(str) == self.reference.launches[0][0]).to_numpy()]
        return dict(zip(first["rank"].astype(int), first["hostname"].astype(str), strict=True))

    def ranks_per_host(self, run: Run) -> int:
        """Ranks of the fullest host of the reference; all of them where hosts are unknown."""
        hosts = pd.Series(self.host_of_rank(run))
        return int(hosts.value_counts().max()) if len(hosts) else self.reference.cell.np

    def launches_in_any_mode(self, run: Run) -> list[LaunchKey]:
        """The launches of the reference, those with a timeline included; those without first."""
        cell = self.reference.cell
        rows = of_base_cell(run.segments, cell.model, cell.np, cell.engine)
        keys = [(str(row["pass_id"]), str(row["segment"])) for row in rows.to_dict("records")]
        return sorted(keys, key=lambda key: key not in self.reference.launches)

    def efficiencies(self, scaling: pd.DataFrame) -> dict[int, float]:
        """The measured efficiency of each number of ranks that is used."""
        return {
            size: float(rows["efficiency"].iloc[0])
            for size in self.measured_np
            if len(rows := of_base_cell(scaling, self.model, size, self.engine))
        }


def forecast_cells(
    measured: MeasuredLaunches, question: Question, manifest: Manifest
) -> ForecastCells:
    """The cells for a question; the manifest is that of the run.

    Raises:
        UsageError: The model trains under neither Horovod nor DDP; or the run holds no cell of two
            ranks or more that can be used, or several models without a choice.
    """
    cells = throughput_cells(measured.times)
    model = _model(cells, question, manifest)
    engine = question.engine or _engine(cells, model)
    if engine in (FSDP_ENGINE, COLLECTIVES_ENGINE):
        raise UsageError(
            f"{model} trains under {ENGINE_TITLES[engine]}, and forecasts know Horovod and DDP",
            hint="Measure it at the rank counts in question.",
        )
    own = sorted(
        (
            cell
            for cell in cells
            if cell.cell.model == model and cell.cell.engine == engine and cell.cell.is_base
        ),
        key=lambda cell: (cell.cell.np, cell.cell.batch_size),
    )
    used = [cell for cell in own if not cell.oversubscribed]
    excluded = tuple(sorted({cell.cell.np for cell in own if cell.oversubscribed}))
    if not used or used[-1].cell.np < 2:
        raise UsageError(
            _reason(model, engine, excluded, bool(used)) + _progress(manifest),
            hint=_hint(manifest, model, engine, [1, 2]),
        )
    baseline_of = baselines(cells)
    reference, baseline = used[-1], baseline_of[model]
    if baseline.cell == reference.cell:
        ratio = LogEstimate(0.0, 0.0, 1.0)
    else:
        ratio = PairedRatios(cells, baseline_of).ratio(reference, baseline)
    sizes = tuple(sorted({cell.cell.np for cell in used}))
    return ForecastCells(reference, baseline, ratio, sizes, excluded)


def _model(cells: list[CellTime], question: Question, manifest: Manifest) -> str:
    models = list(dict.fromkeys(cell.cell.model for cell in cells))
    if not models:
        raise UsageError(
            f"The run holds no step times to extrapolate.{_progress(manifest)}",
            hint=_hint(manifest, question.model or "MODEL", HOROVOD_ENGINE, [1, 2, 4]),
        )
    if question.model in models:
        return question.model
    if question.model or len(models) > 1:
        said = f"The run holds no model {question.model!r}." if question.model else ""
        raise UsageError(
            said or "The run holds several models: a forecast is of one.",
            hint=f"Name one of {', '.join(models)} by --model.",
        )
    return models[0]


def _progress(manifest: Manifest) -> str:
    if not (stands := standing(manifest)):
        return ""
    done = sum(record.status == Status.DONE for record in manifest.passes)
    return f" It {stands}: {done} of {len(manifest.passes)} launches have ended."


def _hint(manifest: Manifest, model: str, engine: str, sizes: list[int]) -> str:
    if manifest.status == Status.RUNNING:
        return "Repeat the command when more launches have ended."
    return f"Measure it: {measure_command(manifest, model, engine).at(sizes)}"


def _engine(cells: list[CellTime], model: str) -> str:
    engines = {cell.cell.engine for cell in cells if cell.cell.model == model} - {TORCH_ENGINE}
    known = [name for name in ENGINE_TITLES if name in engines]
    return HOROVOD_ENGINE if HOROVOD_ENGINE in known or not known else known[0]


def _reason(model: str, engine: str, excluded: tuple[int, ...], has_one: bool) -> str:
    title = ENGINE_TITLES.get(engine, engine)
    if excluded:
        sizes = ", ".join(map(str, excluded))
        return (
            f"{model} under {title} ran oversubscribed on {sizes} ranks, with more ranks than "
            "cores or GPUs: such steps say nothing on larger jobs."
        )
    if has_one:
        return f"{model} was measured on 1 rank alone, which reduces no gradients."
    return f"The run holds no launch of {model} under {title}."


def run_assumptions(job: JobInputs) -> Iterator[str]:
    """One sentence for each assumption on the job."""
    yield (
        "Own work per rank does not depend on the number of ranks, apart from its slowdown while "
        "communicating."
    )
    if job.spread.num_ranks > 1:
        yield (
            f"Added ranks differ from each other as the {job.spread.num_ranks} measured ranks; so "
            "few of them leave wide tails (Student's t)."
        )
    else:
        yield "How much added ranks differ is assumed: only one measured rank is no straggler."
    if job.spread.of_hosts is None:
        yield "Hosts do not differ: ranks of one host alone were measured."
    if job.own.slowdown > 0:
        yield (
            "Compute is slower than on one rank. How much of that communication causes is not "
            "known: any share from 0 to 100 % is drawn, and grows with the overlap."
        )
    if math.isnan(job.own.log_ratio.error):
        yield "No launch was repeated: step times are assumed to vary by 2 %."


def missing_of_run(
    cells: ForecastCells, job: JobInputs, command: MeasureCommand
) -> Iterator[Missing]:
    """The measured sizes and steps that the run lacks."""
    if len(cells.measured_np) == 1:
        yield Missing(
            f"The run measured {cells.measured_np[0]} ranks alone.",
            "efficiencies refer to this size itself",
            command.at([1, cells.measured_np[0]]),
        )
    if math.isnan(job.spread.jitter.tail_index):
        number = units.counted(job.spread.jitter.num_values, "step time")
        yield Missing(
            f"{number} of single ranks are too few to fit the tail of the jitter.",
            "the band is open below where the tail matters",
            command.at([job.num_ranks], "--num-steps 200"),
        )


def missing_inside_hosts(
    question: Question, job: JobInputs, command: MeasureCommand, known: KnownLinks
) -> Iterator[Missing]:
    """The links inside a host, where the question puts several ranks on one."""
    each = question.ranks_per_host or job.ranks_per_host
    is_traced = command.is_traced and each <= job.ranks_per_host
    if known.intra or question.intra or each == 1 or is_traced:
        return
    yield Missing(
        f"No allreduce between ranks of one host was measured, but {each} ranks per host are "
        "predicted.",
        "the links inside a host are assumptions",
        command.inside(each),
    )


def question_assumptions(question: Question, algorithm: str, probability: float) -> Iterator[str]:
    """One sentence for each.

    Args:
        question: What was asked.
        algorithm: Name of the algorithm or rule of the collectives; empty where unknown.
        probability: Its weight among all, given the measured collectives; NaN where not fitted.
    """
    if question.what_if:
        yield f"Assumed of the job: {', '.join(question.what_if)}."
    if not algorithm:
        return
    how = " (not fitted to measured allreduces)"
    if question.algorithm:
        how = " as asked"
    elif not math.isnan(probability):
        how = f", the best fit to the measured ones (probability {units.percent(probability, 0)})"
    yield f"Allreduces follow the algorithm {algorithm}{how}."
    if algorithm == Algorithm.PARAMETER_SERVER:
        yield "One parameter server takes the gradients of all ranks."
