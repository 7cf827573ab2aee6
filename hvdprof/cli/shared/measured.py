"""What `hvdprof bench` and `hvdprof run` do once a sweep is ready."""

import sys

import typer

from hvdprof.api import analyze_run, load_run
from hvdprof.errors import (
    EnvironmentNotReadyError,
    HvdprofError,
    InterruptedRunError,
    StorageError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.launch.remote.net_measurement import BRIEF, NetProbe
from hvdprof.launch.remote.remote_launch import ready_hosts
from hvdprof.launch.remote.remote_shell import hosts_with_ranks
from hvdprof.launch.run.sweep import Sweep
from hvdprof.report.reporter import Reporter


def measure_and_report(sweep: Sweep, reporter: Reporter, *, net: bool) -> None:
    """Run a sweep and print its result, also of one that did not come to its end.

    Args:
        sweep: The sweep.
        reporter: Prints the result.
        net: Measure the network first where ranks run on several hosts.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; nothing has been started.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured has been printed.
        StorageError: The disk is full; what was measured has been printed.
        SweepIncompleteError: A segment has no result; the others have been printed.
    """
    ready_hosts(sweep)
    if net:
        measure_network(sweep)
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
    free = {"resume", "quiet", "format_", "dry_run", "net"}
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


def measure_network(sweep: Sweep) -> None:
    """Measure the network of a sweep once; what fails about it is a warning of the run."""
    folder = sweep.paths.folder
    if len(hosts_with_ranks(sweep.settings)) < 2 or sweep.paths.net.exists():
        return
    probe = NetProbe(
        settings=sweep.settings,
        launcher=sweep.launcher,
        mpi=sweep.mpi,
        effort=BRIEF,
        environment=sweep.environment,
    )
    try:
        probe.measure().write(folder)
    except EnvironmentNotReadyError as error:
        sweep.manifest.warnings.append(" ".join(error.message.split()))


def _run(sweep: Sweep) -> HvdprofError | None:
    """Run a sweep; what went wrong is raised only after the results have been shown."""
    try:
        sweep.run()
    except (SweepIncompleteError, InterruptedRunError, StorageError) as error:
        return error
    return None
