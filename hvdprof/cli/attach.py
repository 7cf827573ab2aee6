"""``hvdprof attach``: a run directory made of existing files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.errors import UsageError
from hvdprof.plain_text import printable_lines
from hvdprof.report.format_names import RECORDINGS_READ

FILES = "Files"
JOB = "The job"


def attach(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUNDIR", help="The run directory to make.", show_default=False),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files of the job, folders or patterns, recognised by their content as `hvdprof "
            "analyze` does. The options below are for files that are to be taken as one kind.",
            show_default=False,
        ),
    ] = None,
    timeline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A Horovod timeline; given several times, one segment each.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="GLOB",
            help="Traces of torch.profiler, one per rank, such as 'traces/*.json.gz'.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    nccl_log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="GLOB",
            help="NCCL logs of all processes, such as 'logs/nccl.*'.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    stdout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Output of the job or of single ranks, with standard error; a file or pattern.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    recording: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="GLOB",
            help=f"Files of other recorders: {RECORDINGS_READ}; or text that is read as one.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    np: Annotated[
        int | None,
        typer.Option(
            "--np",
            min=1,
            help="Ranks of the job, where its files do not show them.",
            show_default=False,
            rich_help_panel=JOB,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Samples per rank and step.", show_default=False, rich_help_panel=JOB
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="A name for the job.", rich_help_panel=JOB)
    ] = "attached",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a run directory that this command made before."),
    ] = False,
) -> None:
    """Make a run directory of existing timelines, traces, logs, output and other recordings.

    Files are recognised by their content and copied; a file that cannot be attached is named with
    the reason. Names of files and the launcher's tags in them show the ranks.
    """
    if run.is_file():
        raise UsageError(
            f"{run} is a file: the run directory to make comes first.",
            hint=f"hvdprof attach CASE {run} ...",
        )
    manifest = api.attach(
        run,
        api.AttachedFiles(
            files=files or (),
            timelines=timeline or (),
            traces=trace or (),
            nccl_logs=nccl_log or (),
            outputs=stdout or (),
            recordings=recording or (),
        ),
        api.AttachedJob(name=name, size=np, batch_size=batch_size),
        overwrite=force,
    )
    for warning in manifest.warnings:
        sys.stderr.write(f"hvdprof: {printable_lines(warning)}\n")
    sys.stderr.write(f"Wrote {run}   hvdprof analyze {run}\n")
