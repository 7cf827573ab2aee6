"""`hvdprof tune`: try settings against the present one, and name what pays."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.options import TuneOptions
from hvdprof.cli.measuring.choice import format_option, margin_of
from hvdprof.cli.measuring.idle import wait_for_idle
from hvdprof.cli.measuring.measure_and_report import announce_interruption
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.written_output import force_option, output_option, show_or_write
from hvdprof.cli.progress.bench_progress import progress_for
from hvdprof.cli.progress.tune_progress import announce_tuning, tuning_progress
from hvdprof.errors import HvdprofError
from hvdprof.report.format_names import TuningFormat


@takes(TuneOptions)
def tune(
    options: TuneOptions,
    margin: Annotated[
        str, typer.Option(help="Smallest gain that matters, a share of the step time.")
    ] = "2%",
    format_: Annotated[
        TuningFormat | None,
        format_option(
            tuple(TuningFormat),
            "Format; the name of --output chooses it when not given, else terminal.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(),
    ] = None,
    force: Annotated[bool, force_option("Replace an existing file of --output.")] = False,
    silent: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Try settings of Horovod or DDP on a job; name those that pay, with their gain.

    The settings follow from a run of the present one. They race against it by turns, and what wins
    is measured anew. Line 1 is the verdict, line 2 the command to copy. `hvdprof tune FOLDER` shows
    an earlier result.
    """
    from hvdprof.report.formats import check_output, format_of_file
    from hvdprof.report.tuning.tuning_formats import RENDERERS, SUFFIXES

    if report is not None:
        check_output(report, overwrite=force)
    chosen = format_ or (
        format_of_file(report, SUFFIXES, "a tuning") if report else TuningFormat.TERMINAL
    )
    failure: HvdprofError | None = None
    if len(options.command) == 1 and Path(options.command[0]).is_dir():
        tuning = api.load_tuning(options.command[0])
    else:
        measurement = api.TuningMeasurement(
            options,
            progress=progress_for(sys.stderr, silent=silent),
            shown=None if silent else tuning_progress(sys.stderr),
            margin=margin_of(margin),
        )
        if not silent:
            announce_tuning(measurement, sys.stderr)
        wait_for_idle(measurement.present, None if silent else sys.stderr)
        tuning, failure = measurement.measure()
        announce_interruption(failure)
    show_or_write(lambda file: RENDERERS[chosen](tuning, file), report, overwrite=force)
    if failure is not None:
        raise failure
