"""``--sbatch``: the same command, later, in Slurm's queue."""

import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from hvdprof.errors import StorageError, UsageError
from hvdprof.launch.launchers.choose_launcher import SRUN
from hvdprof.launch.launchers.job_script import JobScript, submit
from hvdprof.launch.plan.provenance import python_program
from hvdprof.rundir.whole_file import write_whole

_NOT_PASSED_ON = frozenset({"sbatch", "output", "dry_run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """What a command of hvdprof asks of the queue: its largest number of ranks, their processors.

    ``folder`` is the run directory that it is to make.
    """

    command: str
    name: str
    folder: Path
    launcher: str
    num_ranks: int
    cpus_per_task: int


def write_and_submit(context: typer.Context, queued: Queued) -> None:
    """Write the job script beside the run directory, and submit it where there is ``sbatch``.

    With ``--dry-run`` it is only printed.

    Args:
        context: The command as it was typed.
        queued: What it asks for.

    Raises:
        UsageError: The ranks would not be started by ``srun``.
        StorageError: The script is there already, or cannot be written.
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    if queued.launcher != SRUN:
        raise UsageError(
            "--sbatch asks for the nodes of a job, which srun alone knows how to use.",
            hint="Add --launcher srun.",
        )
    folder = queued.folder
    script = JobScript(
        command=[
            *python_program("hvdprof", queued.command),
            *("--output", str(folder.absolute())),
            *_typed(context),
        ],
        name=queued.name,
        num_ranks=queued.num_ranks,
        cpus_per_task=queued.cpus_per_task,
        folder=folder,
        working_folder=Path.cwd(),
    )
    if context.params["dry_run"]:
        sys.stdout.write(script.text())
        return
    if script.path.exists():
        raise StorageError(
            f"{script.path} exists and is not overwritten.", hint="Name another --output."
        )
    write_whole(script.path, script.text(), overwrite=False)
    sys.stderr.write(f"Wrote {script.path}\n")
    answer = submit(script.path)
    if answer:
        sys.stderr.write(f"{answer}; then: hvdprof analyze {folder}\n")
    else:
        sys.stderr.write(f"There is no sbatch here. Where there is: sbatch {script.path}\n")


def _typed(context: typer.Context) -> list[str]:
    """What was typed: options in the order of their declaration, and the script behind ``--``."""
    options: list[str] = []
    script: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in _NOT_PASSED_ON:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            script = ["--", *value]
        elif isinstance(value, bool):
            options.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            options += [parameter.opts[0], str(value)]
    return [*options, *script]
