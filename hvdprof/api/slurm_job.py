"""A measurement later, in Slurm's queue: job_script, queue."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvdprof.api.measured_runs import check_bench
from hvdprof.api.options import KNOWN_MODELS, BenchOptions, RunOptions
from hvdprof.errors import StorageError, UsageError
from hvdprof.launch.launchers.job_script import JobScript, submit
from hvdprof.launch.plan.bench_options import PRESETS
from hvdprof.launch.plan.bench_settings import check_bench_options
from hvdprof.launch.plan.options import SRUN, arguments_of
from hvdprof.launch.plan.preflight import require_working_directory
from hvdprof.launch.plan.provenance import python_program
from hvdprof.launch.run.run_folder import new_run_folder
from hvdprof.launch.run.script_command import script_name
from hvdprof.launch.run.script_run import check_run_options, sizes_of
from hvdprof.rundir.written_file import check_place, write_whole


def job_script(options: BenchOptions | RunOptions, *, display: Sequence[str] = ()) -> JobScript:
    """The job script that measures these options; ``text()`` is what it holds.

    It asks for the largest number of ranks, and lies beside the run directory that it will make.

    Args:
        options: What to measure, with ``launcher="srun"``.
        display: More words of the command line: ``("--quiet",)`` or ``("--format", "json")``.

    Raises:
        UsageError: An option cannot be used, or ``srun`` does not start the ranks.
        EnvironmentNotReadyError: The program of the script is not there.
        UnreadableInputError: ``data_dir`` does not hold MNIST's files.
        StorageError: The working directory was deleted.
    """
    require_working_directory()
    if isinstance(options, BenchOptions):
        check_bench(options)
        _require_sizes(options)
        settings = check_bench_options(options, KNOWN_MODELS)
        command, name = "bench", options.name
        num_ranks, num_threads = max(settings.sizes), settings.num_threads
    else:
        check_run_options(options)
        _refuse_elastic(options)
        command, name = "run", options.name or script_name(options.command)
        num_ranks, num_threads = max(sizes_of(options)), options.num_threads or 1
    if options.launcher != SRUN:
        raise UsageError(
            "--sbatch asks for the nodes of a job, and only srun starts ranks on them.",
            hint="Add --launcher srun.",
        )
    folder = new_run_folder(options.folder, name)
    return JobScript(
        command=[
            *python_program("hvdprof", command),
            *("--output", str(folder.absolute())),
            *display,
            *arguments_of(replace(options, output=None)),
        ],
        name=name,
        num_ranks=num_ranks,
        cpus_per_task=num_threads,
        folder=folder,
        working_folder=Path.cwd(),
    )


def queue(script: JobScript) -> str:
    """Write a job script and submit it.

    Returns:
        The answer of ``sbatch``; empty where there is no ``sbatch``, and the script is written
        alone.

    Raises:
        StorageError: The script exists already, or cannot be written.
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    if script.path.exists():
        raise StorageError(
            f"{script.path} exists and is not overwritten.", hint="Name another --output."
        )
    check_place(script.folder)
    # It holds the command as it is, and may hold a secret.
    write_whole(script.path, script.text(), overwrite=False, mode=0o600)
    return submit(script.path)


def _require_sizes(options: BenchOptions) -> None:
    # The cores of this node are not those of the job.
    if options.np is None and PRESETS[options.preset].sizes is None:
        raise UsageError(
            "--sbatch asks for as many tasks as the largest number of ranks, which is not given.",
            hint="Add --np 1,2,4,8.",
        )


def _refuse_elastic(options: RunOptions) -> None:
    if options.is_elastic:
        raise UsageError(
            "An elastic job is started by horovodrun, and --sbatch asks for ranks of srun.",
            hint="Write a job script of your own around hvdprof run.",
        )
