"""What `hvdprof bench` and `hvdprof run` do with their options."""

import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from hvdprof import api
from hvdprof.api.cached_analysis import print_cached
from hvdprof.api.options import (
    KNOWN_MODELS,
    BenchOptions,
    KubernetesOptions,
    RunOptions,
    arguments_of,
)
from hvdprof.cli.measuring.command_options import CommandOptions
from hvdprof.cli.measuring.given_options import given_options, is_given
from hvdprof.cli.measuring.idle import wait_for_idle
from hvdprof.cli.measuring.watch_options import RunWatchOptions, WatchOptions
from hvdprof.cli.progress.bench_preview import announce, print_launches
from hvdprof.errors import (
    HvdprofError,
    InterruptedRunError,
    StorageError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.plain_text import printable

if TYPE_CHECKING:
    from hvdprof.report.formats import Reporter


_ALLOWED_WITH_RESUME = frozenset(
    {
        "resume",
        "yes",
        "silent",
        "format",
        "dry_run",
        "net",
        "tee",
        *(one.name for one in fields(RunWatchOptions)),
    }
)


def measure_command(
    context: typer.Context,
    options: BenchOptions | RunOptions,
    chosen: CommandOptions,
    watched: RunWatchOptions,
    place: KubernetesOptions,
) -> None:
    """Measure or resume, and print the result; or queue the command, or print what it would do.

    Raises:
        HvdprofError: As ``api.plan_measurement``, ``api.plan_resume`` and ``measure_and_report``.
    """
    from hvdprof.cli.progress.bench_progress import progress_for
    from hvdprof.report.formats import reporter_for

    reporter = reporter_for(chosen.format)
    tee = chosen.tee if isinstance(options, RunOptions) else bool(chosen.tee)
    progress = progress_for(sys.stderr, silent=chosen.silent, tee=tee)
    if chosen.resume is not None:
        refuse_other_options(context)
        net = _net_of_resume(context)
        measurement = api.plan_resume(chosen.resume, net=net, progress=progress)
        _refuse_other_kind(options, measurement, chosen.resume)
        if not (measurement.is_own or chosen.yes or chosen.dry_run):
            confirm(measurement, sys.stdin, sys.stderr)
    elif place.kind:
        print_kubernetes_job(options, chosen, watched, place)
        return
    elif chosen.sbatch:
        queue_job(options, chosen, watched)
        return
    else:
        measurement = api.plan_measurement(options, progress=progress)
    if chosen.dry_run:
        print_launches(measurement, sys.stdout)
        return
    wait_for_idle(measurement, None if chosen.silent else sys.stderr)
    measurement.make_folder(share=chosen.share)
    if not chosen.silent:
        announce(measurement, sys.stderr)
    measure_and_report(measurement, reporter, _watching(measurement.folder, watched))


@contextlib.contextmanager
def _watching(folder: Path, watched: RunWatchOptions) -> Iterator[None]:
    """Show on standard error what is seen while ranks run, where that is asked for."""
    sinks = watched.sinks(folder)
    if not (watched.watch or watched.profile_on_event or sinks):
        yield
        return
    from hvdprof.cli.progress.watch_screen import event_line

    def warn(text: str) -> None:
        sys.stderr.write(f"hvdprof: {printable(text)}\n")

    def show(look: "api.Look") -> None:
        for problem in look.problems:
            warn(f"{problem.rstrip('.')}.")
        for event in look.events if watched.watch else ():
            sys.stderr.write(f"{event_line(event)}\n")

    with api.watching(folder, show, warn, sinks, profile_on_event=watched.profile_on_event):
        yield


def confirm(measurement: "api.Measurement", answers: IO[str], stream: IO[str]) -> None:
    """Show what a run of another user would start, and ask.

    Raises:
        UsageError: The answer is no, or there is no terminal to ask on.
    """
    folder = printable(str(measurement.folder))
    stream.write(
        f"{folder} was not written by your hvdprof, or was changed since: it may be a copy, of an "
        "earlier version, or of another user. It starts\n"
    )
    stream.write("".join(f"  {clause}\n" for clause in measurement.what_starts()))
    refused = UsageError(
        f"{folder} is not resumed.", hint="Add --yes where you trust what it starts."
    )
    if not answers.isatty():
        raise refused
    stream.write("Resume it? [y/N] ")
    stream.flush()
    if answers.readline().strip().lower() not in ("y", "yes"):
        raise refused


def _refuse_other_kind(
    options: BenchOptions | RunOptions, measurement: "api.Measurement", folder: Path
) -> None:
    """Check that ``bench`` resumes no script: it starts nothing but reference models.

    Raises:
        UsageError: The run is of the other command.
    """
    is_script = measurement.settings.script is not None
    if is_script != isinstance(options, RunOptions):
        kind = "a script" if is_script else "reference models"
        raise UsageError(
            f"{printable(str(folder))} is a run of {kind}.",
            hint=measurement.manifest.resume_command(folder),
        )


def measure_and_report(
    measurement: "api.Measurement",
    reporter: "Reporter",
    watched: AbstractContextManager[None] | None = None,
) -> None:
    """Measure and print the result, also the partial result of a measurement that failed.

    Args:
        measurement: What to measure.
        reporter: How to print the result.
        watched: A context around the launches.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; no rank was started.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured has been printed.
        StorageError: The disk is full; what was measured has been printed.
        SweepIncompleteError: A segment has no result; the others have been printed.
    """
    measurement.ready_hosts()
    with watched or contextlib.nullcontext():
        failure = _run(measurement)
    folder = measurement.folder
    if isinstance(failure, StorageError) and not api.is_run_directory(folder):
        raise failure
    announce_interruption(failure)
    analysis = api.analyze_run(folder)
    from hvdprof.report.terminal.terminal_report import TerminalReporter

    if isinstance(reporter, TerminalReporter):
        # The next `hvdprof analyze` prints the same.
        print_cached(folder, None, sys.stdout, partial(reporter.render, analysis))
    else:
        reporter.render(analysis, sys.stdout)
    if isinstance(failure, InterruptedRunError):
        # In the words of the report, which have the command, too.
        for note in analysis.warning_notes:
            if note.code == "unfinished":
                failure.message, failure.hint = note.text, ""
    if failure is None and measurement.manifest.passes and not analysis.verdict.model:
        failure = SweepIncompleteError(analysis.verdict.sentence)
    if failure is not None:
        raise failure


def announce_interruption(failure: HvdprofError | None) -> None:
    """Say before the result that an interruption cut it short, and after how many launches.

    The error that ends the command says the rest.
    """
    if isinstance(failure, InterruptedRunError):
        sys.stderr.write(f"hvdprof: {failure.message} The result so far:\n")
        failure.message = "Interrupted: the result above is incomplete."


def refuse_other_options(context: typer.Context) -> None:
    """Check that ``--resume`` stands alone: a run is resumed with the options it began with.

    Raises:
        UsageError: An option was given that cannot change them.
    """
    given = given_options(context, _ALLOWED_WITH_RESUME)
    if given:
        raise UsageError(
            f"--resume uses the options that the run began with; {', '.join(given)} cannot "
            "change them.",
            hint="Omit them, or start a new run without --resume.",
        )


def _net_of_resume(context: typer.Context) -> bool | None:
    """``--net`` or ``--no-net`` as given beside ``--resume``; None where neither was."""
    return bool(context.params["net"]) if is_given(context, "net") else None


def _run(measurement: "api.Measurement") -> HvdprofError | None:
    """Run the launches; a failure is returned, so that the results are printed before it."""
    try:
        measurement.run_launches()
    except (SweepIncompleteError, InterruptedRunError, StorageError) as error:
        return error
    return None


def print_kubernetes_job(
    options: BenchOptions | RunOptions,
    chosen: CommandOptions,
    watched: RunWatchOptions,
    place: KubernetesOptions,
) -> None:
    """Print the manifest of the job that measures this in a cluster.

    Raises:
        UsageError: An option cannot be used, or is missing.
    """
    if chosen.sbatch:
        raise UsageError("--kubernetes and --sbatch exclude each other.", hint="Omit one of them.")
    if watched.metrics_port is not None and watched.metrics_host == WatchOptions().metrics_host:
        # Prometheus asks from another pod.
        watched = replace(watched, metrics_host="0.0.0.0")
    job = api.kubernetes_job(
        options,
        place,
        KNOWN_MODELS,
        display=_display_words(chosen, watched),
        metrics_port=watched.metrics_port,
    )
    sys.stdout.write(job.text())


def _display_words(chosen: CommandOptions, watched: RunWatchOptions) -> list[str]:
    here = replace(chosen, resume=None, dry_run=False, sbatch=False)
    return [*arguments_of(here), *arguments_of(watched)]


def queue_job(
    options: BenchOptions | RunOptions, chosen: CommandOptions, watched: RunWatchOptions
) -> None:
    """Write the job script beside the run directory, and submit it where ``sbatch`` is available.

    A dry run prints the script alone.

    Raises:
        UsageError: An option cannot be used, or the ranks would not be started by ``srun``.
        StorageError: The script exists already, or cannot be written.
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    script = api.job_script(options, display=_display_words(chosen, watched))
    if chosen.dry_run:
        sys.stdout.write(script.text())
        return
    answer = api.queue(script)
    sys.stderr.write(f"Wrote {script.path}\n")
    if answer:
        sys.stderr.write(f"{answer}; then: hvdprof analyze {script.folder}\n")
    else:
        sys.stderr.write(f"This machine has no sbatch. On one that has: sbatch {script.path}\n")
