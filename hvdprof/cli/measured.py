"""What `hvdprof bench` and `hvdprof run` do once a sweep is ready."""

import sys

import typer

from hvdprof.api import analyze_run, load_run
from hvdprof.errors import (
    HvdprofError,
    InterruptedRunError,
    StorageError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.launch.host_readiness import survey_of_sweep
from hvdprof.launch.sweep import Sweep
from hvdprof.report.reporter import Reporter


def measure_and_report(sweep: Sweep, reporter: Reporter) -> None:
    """Run a sweep and print its result, also of one that did not come to its end.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; nothing has been started.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured has been printed.
        StorageError: The disk is full; what was measured has been printed.
        SweepIncompleteError: A segment has no result; the others have been printed.
    """
    survey_of_sweep(sweep)
    failure = _run(sweep)
    if isinstance(failure, StorageError) and not sweep.paths.manifest.exists():
        raise failure
    reporter.render(analyze_run(load_run(sweep.paths.folder)), sys.stdout)
    if failure is not None:
        raise failure


def refuse_other_settings(context: typer.Context) -> None:
    """Check that a run goes on with the settings that it began with.

    Raises:
        UsageError: An option was given that cannot change them.
    """
    free = {"resume", "quiet", "format_", "dry_run"}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [
        f"--{name.replace('_', '-')}"
        for name, source in sources.items()
        if name not in free and source is not None and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError(
            f"--resume goes on with the settings of the run; {', '.join(given)} cannot change "
            "them.",
            hint="Leave them away, or start a new run without --resume.",
        )


def _run(sweep: Sweep) -> HvdprofError | None:
    """Run a sweep; what went wrong is raised only after the results have been shown."""
    try:
        sweep.run()
    except (SweepIncompleteError, InterruptedRunError, StorageError) as error:
        return error
    return None
