"""``--sbatch``: the same command, later, in Slurm's queue."""

import sys
from dataclasses import replace

from hvdprof import api
from hvdprof.api.options import BenchOptions, RunOptions, arguments_of
from hvdprof.cli.measuring.command_options import CommandOptions


def queue_job(options: BenchOptions | RunOptions, chosen: CommandOptions) -> None:
    """Write the job script beside the run directory, and submit it where ``sbatch`` is available.

    A dry run prints the script alone.

    Raises:
        UsageError: An option cannot be used, or the ranks would not be started by ``srun``.
        StorageError: The script exists already, or cannot be written.
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    display = arguments_of(replace(chosen, resume=None, dry_run=False, sbatch=False))
    script = api.job_script(options, display=display)
    if chosen.dry_run:
        sys.stdout.write(script.text())
        return
    answer = api.queue(script)
    sys.stderr.write(f"Wrote {script.path}\n")
    if answer:
        sys.stderr.write(f"{answer}; then: hvdprof analyze {script.folder}\n")
    else:
        sys.stderr.write(f"This machine has no sbatch. On one that has: sbatch {script.path}\n")
