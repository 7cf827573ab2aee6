"""The options that every command which measures has, in the same words."""

from pathlib import Path
from typing import Annotated

import typer

MEASURING = "Measuring"
OUTPUT = "Output"

StallWarn = Annotated[
    float,
    typer.Option(
        help="Seconds that ranks wait for one that does not get on before it is named, with "
        "its stack; 0 for never.",
        rich_help_panel=MEASURING,
    ),
]
StallKill = Annotated[
    float | None,
    typer.Option(
        help="Seconds of such a stall after which the launch is ended.",
        show_default=False,
        rich_help_panel=MEASURING,
    ),
]
Net = Annotated[
    bool,
    typer.Option(
        "--net/--no-net",
        help="Measure the network first, for some seconds, where ranks run on several hosts.",
        rich_help_panel=MEASURING,
    ),
]
Sbatch = Annotated[
    bool,
    typer.Option(
        "--sbatch",
        help="Write a job script for Slurm, and submit it where sbatch is there; with "
        "--launcher srun.",
        rich_help_panel=OUTPUT,
    ),
]
RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="The run directory; runs/TIME-NAME when not given.",
        rich_help_panel=OUTPUT,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with this run directory; its settings hold.", rich_help_panel=OUTPUT),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print every command with its environment, and what is skipped; start nothing.",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)]
Format = Annotated[
    str, typer.Option("--format", help="terminal, json or csv.", rich_help_panel=OUTPUT)
]
