"""`hvdprof history`: a series of runs, and from which run on they changed."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option, margin_of
from hvdprof.errors import UsageError
from hvdprof.report.format_names import ANALYSES, Format


def history(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run directories of the same job, or folders of them.",
            show_default=False,
        ),
    ],
    metric: Annotated[
        str, typer.Option(help="step_time, throughput, efficiency, exposed_transfer, ...")
    ] = "step_time",
    margin: Annotated[
        str,
        typer.Option(help="Largest change that does not matter: relative, or points of a ratio."),
    ] = "2%",
    format_: Annotated[
        Format,
        format_option(ANALYSES, "How to show the series.", show_default=True),
    ] = Format.TERMINAL,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", help="Draw the series into this .png, .svg or .pdf.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Follow a metric over runs: from which run on it changed, and by how much.

    Change points need eight runs or more, four on either side. Without --figure nothing is drawn.
    """
    if force and figure is None:
        raise UsageError("--force is for --figure.", hint="Omit it, or add --figure FILE.")
    from hvdprof.report.answers.comparison_formats import history_answer
    from hvdprof.report.document.figure_file import check_image, write_history

    if figure is not None:
        check_image(figure, overwrite=force)
    found = api.history(runs, metric=metric, margin=margin_of(margin))
    history_answer(found).write(format_, sys.stdout)
    if figure is not None:
        write_history(found, figure, overwrite=force)
        sys.stderr.write(f"Wrote {figure}\n")
