"""Options of the commands that measure which concern the command line alone."""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.api.options import OUTPUT, option


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What the command does with a measurement, and how it shows it."""

    resume: Path | None = option(
        None,
        "Resume the run in this run directory, with its own options.",
        "--resume",
        panel=OUTPUT,
    )
    yes: bool = option(
        False, "Resume a run of another user without a question.", "--yes", "-y", panel=OUTPUT
    )
    share: bool = option(
        False,
        "Let your group read the run directory; by default, you alone can.",
        "--share",
        panel=OUTPUT,
    )
    dry_run: bool = option(
        False,
        "Print every command with its environment, and what is skipped; start nothing.",
        "--dry-run",
        panel=OUTPUT,
    )
    sbatch: bool = option(
        False,
        "Write a job script for Slurm, and submit it where sbatch is available; with --launcher "
        "srun.",
        "--sbatch",
        panel=OUTPUT,
    )
    tee: bool | None = option(
        None,
        "Show what rank 0 prints while it runs (torchrun: all ranks); by default of one launch of "
        "a script on a terminal.",
        "--tee/--no-tee",
        panel=OUTPUT,
    )
    silent: bool = option(False, "Show no progress.", "--quiet", "-q", panel=OUTPUT)
    format: str = option("terminal", "terminal, json or csv.", "--format", panel=OUTPUT)
