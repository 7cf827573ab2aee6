"""``hvdprof scaling``: how well a job scales, from a table that somebody has."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.errors import UnreadableInputError
from hvdprof.report.terminal.scaling_report import render_scaling, render_scaling_json


class ScalingFormat(StrEnum):
    """How to show it."""

    TERMINAL = "terminal"
    JSON = "json"


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
            help="What the second number is: samples/s, steps/s, s/step, ms/step or speed-up; the "
            "name of its column tells it, and samples/s is meant where there is none.",
            show_default=False,
        ),
    ] = None,
    strong: Annotated[
        bool,
        typer.Option(
            "--strong",
            help="All ranks share one batch of the same size; for steps/s and times of steps.",
        ),
    ] = False,
    format_: Annotated[
        ScalingFormat, typer.Option("--format", help="How to show it.")
    ] = ScalingFormat.TERMINAL,
) -> None:
    """Tell how well somebody's numbers scale: efficiency, serial fraction, what is odd.

    Rows of one size are repeats and give the efficiency an interval.
    """
    name = "standard input" if file == "-" else file
    found = api.scaling_of_text(_lines(file), name=name, unit=unit, strong=strong)
    if format_ is ScalingFormat.JSON:
        render_scaling_json(found, sys.stdout)
    else:
        render_scaling(found, sys.stdout)


def _lines(file: str) -> list[str]:
    if file == "-":
        return sys.stdin.read().splitlines()
    try:
        return Path(file).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise UnreadableInputError(
            f"{file} cannot be read: {error.strerror}.", hint="Check the path."
        ) from error
