"""``hvdprof scaling``: how well a job scales, from a table of ranks and speeds."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.shown_forecast import throughput_forecast_renderer
from hvdprof.report.format_names import RESULTS, Format


def scaling(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="A table of ranks and speeds as CSV, Markdown or `1:872 8:6679`; - for stdin.",
            show_default=False,
        ),
    ],
    unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of the second number: samples/s, steps/s, s/step, ms/step or speed-up; the "
            "name of its column when not given, else samples/s.",
            show_default=False,
        ),
    ] = None,
    strong: Annotated[
        bool,
        typer.Option(
            "--strong",
            help="Strong scaling: all ranks share one batch. Needed for steps/s and step times.",
        ),
    ] = False,
    np: Annotated[
        str | None,
        typer.Option(
            "--np",
            "-np",
            help="Numbers of ranks to predict from the table, such as 64,128: efficiency with 50 "
            "and 90 % bands in place of the report on the measured sizes.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        Format,
        format_option(RESULTS, "How to show the result.", show_default=True),
    ] = Format.TERMINAL,
) -> None:
    """Report how well measured speeds scale: efficiency, serial fraction, warnings.

    Rows of one size are repeats; they give the efficiency its 95 % CI.
    """
    from hvdprof.report.terminal.scaling_report import render_scaling, render_scaling_json

    name = "standard input" if file == "-" else file
    lines = api.small_text(Path(file)).splitlines()
    if np is not None:
        forecast = api.predict_throughput(lines, np, name=name, unit=unit, strong=strong)
        throughput_forecast_renderer(forecast, format_)(sys.stdout)
        return
    result = api.scaling_of_text(lines, name=name, unit=unit, strong=strong)
    if format_ is Format.JSON:
        render_scaling_json(result, sys.stdout)
    else:
        render_scaling(result, sys.stdout)
