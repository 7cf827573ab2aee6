"""What a job reaches at other numbers of ranks: from a run, a model, or throughputs alone."""

import dataclasses
import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from hvdprof import __version__
from hvdprof.analyze.predict.costs.collective_cost import Algorithm
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.forecast import forecast
from hvdprof.analyze.predict.job_forecast import job_forecast
from hvdprof.analyze.predict.stated_job import StatedJob, stated_facts, stated_inputs
from hvdprof.analyze.predict.throughput_forecast import throughput_forecast
from hvdprof.api.forecast_scoring import earlier_errors, run_analysis
from hvdprof.errors import MissingExtraError, UsageError
from hvdprof.ingest.load import SAMPLES_PER_S, read_scaling_text
from hvdprof.launch.plan.options import Amount
from hvdprof.launch.plan.predict_options import PredictOptions, parse_settings
from hvdprof.launch.plan.preflight import Sizes, parse_sizes, parse_target
from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.model.results.forecast import DEFAULT_TARGET, Question
from hvdprof.model.results.forecast import Forecast as Forecast
from hvdprof.model.results.forecast import ThroughputForecast as ThroughputForecast
from hvdprof.model.run import RunAnalysis, standing
from hvdprof.report.sections.forecast_page import write_forecast
from hvdprof.report.shown_result import shown
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.written_file import file_mode, open_whole

Throughput = float | str | tuple[float, float]
"""Samples per second: 154, a range ``"115-162"``, or its ends."""

CACHE = "HOROVOD_CACHE_CAPACITY"
DEFAULT_BATCH = 64


def predict_model(
    question: Question,
    samples_per_s: Throughput,
    *,
    batch_size: int = DEFAULT_BATCH,
    on_gpu: bool = True,
) -> Forecast:
    """The efficiency band of a model that was never run (docs/explain/prediction.md).

    Sizes and order of its gradients come from the model itself, which is built without memory and
    not computed. Everything else is stated, or drawn from priors that ``assumptions`` lists.

    Args:
        question: ``model`` is a reference model, or ``module:function`` as of
            ``hvdprof.bench_models.model_gradients``. A host has one rank, links are stated speeds
            from 1 to 400 Gbit/s, and collectives are rings where it says nothing else. Of the
            settings ``HOROVOD_CACHE_CAPACITY=0`` turns Horovod's response cache off.
        samples_per_s: Throughput of one rank alone; a range is uniform.
        batch_size: Samples per rank and step.
        on_gpu: Whether collectives run beside Horovod's loop, on a stream of a GPU.

    Raises:
        UsageError: The model, a number or a setting cannot be used.
        MissingExtraError: torch is not installed.
    """
    settings = dict(question.settings)
    cache = settings.pop(CACHE, "")
    rates = _range(samples_per_s)
    if batch_size < 1:
        raise UsageError(f"A batch size of {batch_size} is below 1.")
    if question.algorithm and question.algorithm not in tuple(Algorithm):
        raise UsageError(
            f"There is no algorithm {question.algorithm!r}.", hint=f"Known: {', '.join(Algorithm)}."
        )
    try:
        from hvdprof.bench_models.model_gradients import model_gradients
    except ImportError as error:
        raise MissingExtraError("A prediction without a run", extra="bench") from error
    found = model_gradients(question.model)
    sizes = np.asarray(found.size_bytes, dtype=np.int64)
    job = StatedJob(
        gradients=Gradients(found.names, sizes, found.dtypes),
        costs=found.costs,
        samples_per_s=rates,
        batch_size=batch_size,
        ranks_per_host=question.ranks_per_host or 1,
        is_cached=cache != "0",
        on_gpu=on_gpu,
        algorithm=Algorithm(question.algorithm) if question.algorithm else None,
    )
    asked = replace(question, settings=settings, engine=HOROVOD_ENGINE)
    inputs = stated_inputs(job, question.seed)
    return shown(job_forecast(inputs, asked, stated_facts(job, question.model)))


def _range(samples_per_s: Throughput) -> tuple[float, float]:
    ends = (0.0, 0.0)
    try:
        if isinstance(samples_per_s, str):
            low, _, high = samples_per_s.partition("-")
            ends = (float(low), float(high or low))
        elif isinstance(samples_per_s, tuple):
            ends = samples_per_s
        else:
            ends = (float(samples_per_s), float(samples_per_s))
    except ValueError:
        # Not a number: refused below as 0 is.
        pass
    if not 0 < ends[0] <= ends[1] < float("inf"):
        raise UsageError(
            f"{samples_per_s!r} is no throughput.",
            hint="Samples per second of one rank: 154, or a range: 115-162.",
        )
    return ends


_DEFAULT_DOUBLINGS = 4
_LARGEST_DEFAULT = 512
_STATED_SIZES = (8, 16, 32, 64, 128, 256, 512)


def predict(
    run: str | Path | RunAnalysis, options: PredictOptions, *, store: bool = True
) -> Forecast:
    """The efficiency band of a measured job at other numbers of ranks.

    >>> forecast = predict("runs/sweep", PredictOptions(np=[4, 8]), store=False)
    >>> sorted(set(forecast.rows["np"]))
    [4, 8]

    ``rows`` has one row per network and number of ranks (efficiency, samples_per_s and step_time at
    the quantiles ``_p5`` to ``_p95``, the dominating cause), ``causes`` the lost time by cause,
    ``limits`` the knee and the largest number of ranks at the target, ``widths`` which inputs the
    band comes from, ``measurements`` what to measure next (docs/howto/predict.md).

    Args:
        run: A run directory, or its analysis.
        options: What to predict.
        store: Whether the forecast is written into the run directory, where ``score_forecasts``
            and reports find it.

    Raises:
        UsageError: An option cannot be used, no asked number of ranks is above the measured ones,
            or the run holds nothing to extrapolate.
        UnreadableInputError: The path is no run directory.
        StorageError: The forecast cannot be written.
    """
    options.check()
    analysis = run if isinstance(run, RunAnalysis) else run_analysis(Path(run))
    folder = analysis.run.folder
    sizes, note = _sizes(analysis, options)
    earlier, problems = earlier_errors(folder.parent)
    question = _question(options, sizes, earlier)
    found = forecast(analysis, question)
    notes = [*([note] if note else []), *_progress_note(analysis.run.manifest), *problems]
    found = shown(dataclasses.replace(found, assumptions=(*found.assumptions, *notes)))
    if store:
        now = dt.datetime.now(dt.UTC)
        path = RunPaths(folder).forecasts / f"{now:%Y%m%d-%H%M%S-%f}.json"
        with open_whole(path, overwrite=False, mode=file_mode(path)) as file:
            write_forecast(
                found, file, created_at=now.isoformat(timespec="seconds"), version=__version__
            )
    return found


def predict_stated(options: PredictOptions) -> Forecast:
    """The efficiency band of a model that was never run, from one rank's throughput.

    Args:
        options: ``model`` and ``samples_per_s``, and what ``predict`` takes.

    Raises:
        UsageError: The model, a number or a setting cannot be used.
        MissingExtraError: torch is not installed.
    """
    options.check()
    if options.samples_per_s is None or not options.model:
        raise UsageError("A model without a run requires --model and --samples-per-s.")
    sizes = _STATED_SIZES if options.np is None else parse_sizes(options.np)
    return predict_model(
        _question(options, sizes, ()),
        options.samples_per_s,
        batch_size=options.batch_size or DEFAULT_BATCH,
        on_gpu=options.device == "cuda",
    )


def predict_throughput(
    lines: Iterable[str],
    np: Sizes | None = None,
    *,
    name: str = "table",
    unit: str | None = None,
    strong: bool = False,
    target: Amount = DEFAULT_TARGET,
) -> ThroughputForecast:
    """Efficiency bands at unseen numbers of ranks, from measured throughputs alone.

    >>> table = ["ranks,samples/s", "1,100", "2,190", "4,360", "8,680"]
    >>> forecast = predict_throughput(table, np=[64])
    >>> float(forecast.rows.query("np == 64")["efficiency_p50"].iloc[0]) < 0.85
    True

    ``rows`` has one row per series and number of ranks (efficiency and samples_per_s at the
    quantiles ``_p5`` to ``_p95``; ratios 0..1), ``limits`` the knee and the largest number of ranks
    at the target, ``next_sizes`` what to measure next (docs/howto/predict.md).

    Args:
        lines: A table of numbers of ranks and speeds as of ``scaling_of_text``.
        np: Numbers of ranks above the measured ones; three doublings when not given.
        name: The name of the table in messages.
        unit: Unit of the speeds; the name of the column decides when not given.
        strong: Strong scaling: a step is the same work at every size.
        target: Efficiency of the largest useful number of ranks, ``"80%"`` or 0.8.

    Raises:
        UsageError: No asked number of ranks is above the measured ones, or no unit has that name.
        UnreadableInputError: The table holds fewer than two sizes.
    """
    sizes = () if np is None else parse_sizes(np)
    text = read_scaling_text(lines, name=name, unit=unit, strong=strong)
    found = throughput_forecast(
        text.throughput,
        sizes,
        strong=strong,
        target=parse_target("--target", target),
        notes=text.notes,
    )
    if found.rows.empty:
        raise _none_larger(sizes, int(text.throughput["np"].max()))
    return shown(found if text.unit == SAMPLES_PER_S else found.without_rates())


def _sizes(analysis: RunAnalysis, options: PredictOptions) -> tuple[tuple[int, ...], str]:
    """The sizes to predict, and a note on those that are measured."""
    scaling = analysis.scaling
    usable = scaling[~scaling["oversubscribed"].to_numpy(dtype=bool)]
    if options.model:
        usable = usable[usable["model"] == options.model]
    largest = max(1, int(usable["np"].max())) if len(usable) else 1
    if options.np is None:
        doublings = (largest << number for number in range(1, _DEFAULT_DOUBLINGS + 1))
        return tuple(size for size in doublings if size <= _LARGEST_DEFAULT) or (2 * largest,), ""
    asked = parse_sizes(options.np)
    wanted = tuple(size for size in asked if size > largest)
    if not wanted:
        raise _none_larger(asked, largest)
    left = ", ".join(str(size) for size in asked if size <= largest)
    return wanted, f"np={left} not predicted: np={largest} is measured." if left else ""


def _none_larger(asked: tuple[int, ...], largest: int) -> UsageError:
    sizes = ", ".join(map(str, asked))
    return UsageError(
        f"Nothing to predict at np={sizes}: np={largest} is measured, and only larger sizes "
        "are predicted.",
        hint=f"--np {2 * largest},{4 * largest},{8 * largest}",
    )


def _question(
    options: PredictOptions, sizes: tuple[int, ...], earlier: tuple[tuple[float, float], ...]
) -> Question:
    return Question(
        sizes=sizes,
        model=options.model or "",
        engine=options.engine or "",
        ranks_per_host=options.hosts_of,
        links=options.link,
        intra=options.intra or "",
        scaling=options.scaling,
        settings=parse_settings(options.set),
        algorithm=options.algorithm or "",
        keeps_stragglers=not options.exclude_stragglers,
        target=parse_target("--target", options.target),
        past_errors=earlier,
        num_draws=options.num_draws,
        seed=options.seed,
    )


def _progress_note(manifest: Manifest) -> list[str]:
    """A sentence on a run whose launches have not all ended."""
    if not (stands := standing(manifest)):
        return []
    done = sum(record.status == Status.DONE for record in manifest.passes)
    return [f"The run {stands}: {done} of {len(manifest.passes)} launches have ended."]
