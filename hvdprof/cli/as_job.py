"""``hvdprof bench --sbatch``: the same benchmark, later, in Slurm's queue."""

import sys
from pathlib import Path

import typer

from hvdprof.errors import UsageError
from hvdprof.launch.choose_launcher import SRUN
from hvdprof.launch.job_script import JobScript, submit
from hvdprof.launch.settings import BenchSettings
from hvdprof.launch.surroundings import python_program
from hvdprof.rundir.whole_file import write_whole

_NOT_PASSED_ON = frozenset({"sbatch", "output"})


def write_and_submit(
    context: typer.Context, settings: BenchSettings, folder: Path, name: str
) -> None:
    """Write the job script beside the run directory, and submit it where there is ``sbatch``.

    Raises:
        UsageError: The ranks would not be started by ``srun``.
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    if settings.launcher != SRUN:
        raise UsageError(
            "--sbatch asks for the nodes of a job, which srun alone knows how to use.",
            hint="Add --launcher srun.",
        )
    script = JobScript(
        command=[
            *python_program("hvdprof", "bench", *_typed(context)),
            *("--output", str(folder.absolute())),
        ],
        name=name,
        num_ranks=max(settings.sizes),
        cpus_per_task=settings.num_threads,
        folder=folder,
        working_folder=Path.cwd(),
    )
    write_whole(script.path, script.text(), overwrite=False)
    sys.stderr.write(f"Wrote {script.path}\n")
    answer = submit(script.path)
    if answer:
        sys.stderr.write(f"{answer}; then: hvdprof analyze {folder}\n")
    else:
        sys.stderr.write(f"There is no sbatch here. Where there is: sbatch {script.path}\n")


def _typed(context: typer.Context) -> list[str]:
    """The options of a command as they were typed, in the order of their declaration."""
    typed: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in _NOT_PASSED_ON:
            continue
        value = context.params[name]
        typed += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return typed
