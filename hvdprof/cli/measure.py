"""`hvdprof bench`, `run` and `net`: measure reference models, a script, or the network of hosts."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.options import OUTPUT, BenchOptions, KubernetesOptions, NetOptions, RunOptions
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.command_options import CommandOptions
from hvdprof.cli.measuring.measure_and_report import measure_command
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.watch_options import RunWatchOptions
from hvdprof.errors import UsageError
from hvdprof.report.format_names import RESULTS, Format


@takes(NetOptions)
def net(
    options: NetOptions,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run directory: show what was measured there; nothing is started.",
            show_default=False,
        ),
    ] = None,
    silent: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT)
    ] = False,
    format_: Annotated[
        Format, format_option(RESULTS, "How to show the result.", show_default=True, panel=OUTPUT)
    ] = Format.TERMINAL,
) -> None:
    """Measure latency and bandwidth between hosts: plain TCP, Horovod, and allreduce.

    One rank runs on every host. With three hosts or more the result names slow links. `hvdprof
    bench` and `run` do a short measurement before they start on several hosts.
    """
    if run is not None:
        if options.hosts is not None:
            raise UsageError("Give a run directory or --hosts, not both.", hint="hvdprof net RUN")
    else:
        run = api.measure_net(options, on_start=None if silent else _announce)
    _show(run, format_)


def _announce(hosts: list[str], folder: Path) -> None:
    sys.stderr.write(f"hvdprof: measuring the network between {', '.join(hosts)} into {folder}\n")


def _show(folder: Path, format_: Format) -> None:
    from hvdprof.report.answers.selftest import net_answer

    net_answer(api.analyze_run(folder)).write(format_, sys.stdout)


@takes(RunOptions, CommandOptions, RunWatchOptions, KubernetesOptions)
def run(
    options: RunOptions,
    chosen: CommandOptions,
    watched: RunWatchOptions,
    place: KubernetesOptions,
    context: typer.Context,
) -> None:
    """Run an unmodified Horovod or DDP script; report how well it scales, and why not better."""
    measure_command(context, options, chosen, watched, place)


@takes(BenchOptions, CommandOptions, RunWatchOptions, KubernetesOptions)
def bench(
    options: BenchOptions,
    chosen: CommandOptions,
    watched: RunWatchOptions,
    place: KubernetesOptions,
    context: typer.Context,
) -> None:
    """Run the reference models at several rank counts and report how well they scale."""
    measure_command(context, options, chosen, watched, place)
