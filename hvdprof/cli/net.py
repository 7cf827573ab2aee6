"""``hvdprof net``: latency and bandwidth between the hosts of a job."""

import contextlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hvdprof.api import analyze_run, load_run
from hvdprof.cli.shared.measuring_options import MEASURING, OUTPUT, Quiet, RunFolder
from hvdprof.errors import HvdprofError, UsageError
from hvdprof.launch.launchers.choose_launcher import AUTO, LAUNCHER_NAMES, find_launcher
from hvdprof.launch.plan.settings import BenchSettings
from hvdprof.launch.remote.host_survey import host_records, survey_hosts
from hvdprof.launch.remote.net_measurement import (
    THOROUGH,
    NetEffort,
    NetProbe,
    net_manifest,
    sizes_of,
)
from hvdprof.launch.remote.remote_shell import host_shell
from hvdprof.launch.run.bench_run import find_tools, machine_of, make_run_folder
from hvdprof.report.terminal.net_report import render_net, render_net_json
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Status


class NetFormat(StrEnum):
    """How to show it."""

    TERMINAL = "terminal"
    JSON = "json"


def net(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run directory: show what was measured there; nothing is started.",
            show_default=False,
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts", "-H", help="Two hosts or more, such as h1,h2; slots do not matter here."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of the messages, such as 1k,64k,1M; 1k to 16M in steps of 4 when not "
            "given.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            help="For each pair of hosts and size, and for TCP, Horovod and allreduce each.",
            rich_help_panel=MEASURING,
        ),
    ] = THOROUGH.seconds,
    controller: Annotated[
        str, typer.Option(help="auto, gloo or mpi; auto takes MPI where it works.")
    ] = "auto",
    launcher: Annotated[
        str, typer.Option(help=f"{', '.join(LAUNCHER_NAMES)}; srun inside a Slurm allocation.")
    ] = AUTO,
    device: Annotated[
        str,
        typer.Option(help="auto, cpu or cuda: where tensors are.", rich_help_panel=MEASURING),
    ] = "auto",
    output: RunFolder = None,
    quiet: Quiet = False,
    format_: Annotated[
        NetFormat,
        typer.Option("--format", help="How to show it.", rich_help_panel=OUTPUT),
    ] = NetFormat.TERMINAL,
) -> None:
    """Measure latency and bandwidth between hosts: plain TCP, Horovod, and allreduce.

    One rank runs on every host. Of three hosts or more it says whose link is slow. `hvdprof bench`
    and `run` do it in brief before they start on several hosts.
    """
    if run is not None:
        if hosts is not None:
            raise UsageError("Give a run directory or --hosts, not both.", hint="hvdprof net RUN")
        _show(run, format_)
        return
    if not 0.01 <= seconds <= 60:
        raise UsageError(f"--seconds {seconds:g}: must be from 0.01 to 60.")
    effort = NetEffort(sizes_of(sizes) if sizes else THOROUGH.sizes, seconds)
    tools = find_tools()
    machine = machine_of(tools, controller=controller, device=device)
    manifest = net_manifest(hosts, machine, launcher, tools)
    settings = BenchSettings.from_manifest(manifest.settings)
    probe = NetProbe(
        settings=settings,
        launcher=find_launcher(
            settings.controller,
            tools.mpi,
            settings.launcher,
            mpi_library=tools.horovod.mpi_library,
        ),
        mpi=tools.mpi,
        effort=effort,
    )
    names = ", ".join(probe.host_names())
    folder = make_run_folder(manifest, output, "net")
    try:
        manifest.hosts = _asked(probe, folder)
        if not quiet:
            sys.stderr.write(f"hvdprof: measuring the network between {names} into {folder}\n")
        probe.measure().write(folder)
    except HvdprofError:
        # Nothing is in it that could be gone on with.
        with contextlib.suppress(OSError):
            RunPaths(folder).manifest.unlink()
            folder.rmdir()
        raise
    manifest.status = Status.DONE
    manifest.write(RunPaths(folder))
    _show(folder, format_)


def _asked(probe: NetProbe, folder: Path) -> list[dict[str, Any]]:
    """The hosts for the manifest, after each was asked what it has."""
    briefs = survey_hosts(
        probe.host_names(),
        host_shell(probe.settings),
        folder=folder,
        controller=probe.settings.controller,
    )
    return host_records(briefs)


def _show(folder: Path, format_: NetFormat) -> None:
    analysis = analyze_run(load_run(folder))
    if format_ is NetFormat.JSON:
        render_net_json(analysis, sys.stdout)
    else:
        render_net(analysis, sys.stdout)
