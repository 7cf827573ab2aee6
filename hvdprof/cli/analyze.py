"""`hvdprof analyze`: the finished analysis of a run directory, printed or written."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.report.registry import reporter_for, write_with


class ReportFormat(StrEnum):
    """The formats that one can read or parse; a trace is written by ``hvdprof export``."""

    TERMINAL = "terminal"
    JSON = "json"
    CSV = "csv"


def analyze(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    format_: Annotated[
        ReportFormat | None,
        typer.Option(
            "--format",
            help="How to show it; terminal, unless the name of --output says otherwise.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file instead of the terminal."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Say how well a run scaled, what cost most, and how far the numbers can be trusted.

    Works from the run directory alone: neither torch nor Horovod nor the machine of the run is
    needed.
    """
    if output is None:
        reporter = reporter_for(format_ or ReportFormat.TERMINAL)
        reporter.render(api.analyze_run(api.load_run(run)), sys.stdout)
        return
    reporter = reporter_for(format_ or output)
    write_with(reporter, api.analyze_run(api.load_run(run)), output, overwrite=force)
    sys.stderr.write(f"Wrote {output}\n")
