"""``hvdprof predict``: efficiency bands at numbers of ranks that were not measured."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.options import OUTPUT, PredictOptions
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.chosen_run import run_of
from hvdprof.cli.measuring.given_options import given_options
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.written_output import force_option, output_option, show_or_write
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import StorageError, UsageError
from hvdprof.report.format_names import ANALYSES, Format

_TABLE_OPTIONS = ("np", "target", "scaling", "unit")


@takes(PredictOptions)
def predict(
    options: PredictOptions,
    context: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="The run directory of a measured job; several with --score.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE|-",
            help="Predict from a table of ranks and speeds alone, as `hvdprof scaling` reads it.",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            help="With --table: unit of the speeds: samples/s, steps/s, s/step, ms/step or "
            "speed-up; the name of the column when not given.",
            show_default=False,
        ),
    ] = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="Hold the forecasts of runs against later measurements of the same sizes.",
        ),
    ] = False,
    price: Annotated[
        float | None,
        typer.Option(
            "--price",
            help="Price of one rank for an hour: adds samples per unit of currency.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    format_: Annotated[
        Format,
        format_option(
            (*ANALYSES, Format.HTML), "How to show the result.", show_default=True, panel=OUTPUT
        ),
    ] = Format.TERMINAL,
    output: Annotated[
        Path | None,
        output_option("File to write instead of standard output.", panel=OUTPUT),
    ] = None,
    force: Annotated[bool, force_option(panel=OUTPUT)] = False,
) -> None:
    """Predict efficiency and throughput at other numbers of ranks, with 50 and 90 % bands.

    From a run directory (of bench or run), from a model without a run (--model with
    --samples-per-s), or from throughputs alone (--table). A forecast of a run is stored beside it.
    """
    options.check()
    _check(options, context, runs or [], table, score=score, price=price)
    if unit is not None and table is None:
        raise UsageError("--unit is for --table.", hint="hvdprof predict --table FILE --np 64")
    from hvdprof.report.answers.files import throughput_forecast_answer
    from hvdprof.report.answers.scores import forecast_answer, score_answer

    if score:
        scored = api.score_forecasts(runs or [])
        answer = score_answer(scored.scores, scored.errors, scored.notes)
    elif table is not None:
        answer = throughput_forecast_answer(_of_table(options, table, unit))
    elif runs:
        run = run_of(runs[0], "hvdprof predict RUN --np 64")
        found = _of_run(options, run)
        answer = forecast_answer(found, run=shlex.quote(str(run)), price=price)
    else:
        answer = forecast_answer(api.predict_stated(options), price=price)
    show_or_write(partial(answer.write, format_), output, overwrite=force)


def _check(
    options: PredictOptions,
    context: typer.Context,
    runs: list[Path],
    table: str | None,
    *,
    score: bool,
    price: float | None,
) -> None:
    """Refuse what contradicts itself before anything is read.

    Raises:
        UsageError: There is no source or several, or options of another source.
    """
    of_model = options.samples_per_s is not None
    sources = [bool(runs) and not score, table is not None, score, of_model]
    if not any(sources) and options.model:
        raise UsageError(
            "--model without a run requires --samples-per-s: the throughput of one rank alone.",
            hint=f"hvdprof predict --model {shlex.quote(options.model)} --samples-per-s 154 "
            "--link 25Gbit,15us --np 64",
        )
    if sum(sources) != 1:
        raise UsageError(
            "Name one source: a run directory, --table FILE, --score RUN..., or --model with "
            "--samples-per-s.",
            hint="hvdprof predict RUN --np 16,32,64",
        )
    if price is not None and not price > 0:
        raise UsageError(f"--price {price:g}: must be above 0.")
    if score and not runs:
        raise UsageError("--score requires run directories.", hint="hvdprof predict --score RUN")
    if len(runs) > 1 and not score:
        raise UsageError(
            f"One run is predicted from, not {len(runs)}.", hint="Several runs: --score RUN RUN"
        )
    if of_model and not options.model:
        raise UsageError(
            "--samples-per-s requires --model.",
            hint="hvdprof predict --model vgg16 --samples-per-s 154 --link 25Gbit,15us --np 512",
        )
    if table is not None or score:
        _refuse_others(context, () if score else _TABLE_OPTIONS)


def _refuse_others(context: typer.Context, allowed: tuple[str, ...]) -> None:
    known = {*allowed, "runs", "table", "score", "format_", "output", "force"}
    given = given_options(context, known)
    if given:
        raise UsageError(
            f"{', '.join(given)} has no effect here: it is for a forecast of a run or a model.",
            hint="hvdprof predict RUN --np 16,32,64",
        )


def _of_table(options: PredictOptions, table: str, unit: str | None) -> "api.ThroughputForecast":
    name = "standard input" if table == "-" else table
    return api.predict_throughput(
        api.small_text(Path(table)).splitlines(),
        options.np,
        name=name,
        unit=unit,
        strong=options.scaling == "strong",
        target=options.target,
    )


def _of_run(options: PredictOptions, folder: Path) -> "api.Forecast":
    if not api.is_run_directory(folder):
        return api.predict(folder, options)
    with load_progress([folder]) as progress:
        analysis = api.analyze_run(folder, progress=progress)
    try:
        return api.predict(analysis, options)
    except StorageError as error:
        sys.stderr.write(f"! The forecast is not stored, and not scored later. {error.message}\n")
        return api.predict(analysis, options, store=False)
