"""Measure the reference models or a script: measure, resume, and later in Slurm's queue.

from hvdprof.api import BenchOptions, analyze_run, load_run, measure

folder = measure(BenchOptions(np=(1, 2), models=("mnist",), preset="quick"))
print(analyze_run(load_run(folder)).verdict.sentence)
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvdprof.api.measurement import Measurement
from hvdprof.api.options import KNOWN_MODELS, BenchOptions, FunctionOptions, RunOptions
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.launch.diagnose.rank_progress import PassProgress as PassProgress
from hvdprof.launch.diagnose.stall import Stall as Stall
from hvdprof.launch.launchers.job_script import JobScript, submit
from hvdprof.launch.plan.bench_options import PRESETS
from hvdprof.launch.plan.bench_settings import bench_launcher, check_bench_options
from hvdprof.launch.plan.options import SRUN, arguments_of
from hvdprof.launch.plan.preflight import require_working_directory
from hvdprof.launch.plan.settings import read_options
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.run.bench_run import prepare_bench, read_for_resuming
from hvdprof.launch.run.kubernetes_run import kubernetes_job as kubernetes_job
from hvdprof.launch.run.run_folder import new_run_folder
from hvdprof.launch.run.script_command import script_name
from hvdprof.launch.run.script_launcher import Tools, find_tools, launcher_name
from hvdprof.launch.run.script_run import check_run_options, prepare_script, sizes_of
from hvdprof.launch.run.sweep_state import SilentProgress as SilentProgress
from hvdprof.launch.run.sweep_state import SweepProgress as SweepProgress
from hvdprof.model.cell_key import ENGINE_TITLES, setting_name
from hvdprof.rundir.manifest import NOT_ENDED, Manifest
from hvdprof.rundir.manifest import PassRecord as PassRecord
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, OTHER_ENGINES, TORCH_ENGINE
from hvdprof.rundir.written_file import check_place, write_whole


def launch_title(record: PassRecord) -> str:
    """A launch in a few words: ``2 ranks, throughput, repeat 1``."""
    if record.session is not None:
        return f"elastic, {record.mode}, repeat {record.repeat}"
    ranks = "1 rank" if record.size == 1 else f"{record.size} ranks"
    if all(segment.segment.engine == TORCH_ENGINE for segment in record.segments):
        return f"{ranks}, {ENGINE_TITLES[TORCH_ENGINE]}, repeat {record.repeat}"
    # Its ranks have not named it yet.
    is_open = record.engine == COLLECTIVES_ENGINE and record.status in NOT_ENDED
    is_named = record.engine in OTHER_ENGINES and not is_open
    engine = f"{ENGINE_TITLES[record.engine]}, " if is_named else ""
    return f"{ranks}, {engine}{record.mode}, repeat {record.repeat}"


def segment_title(record: PassRecord, segment_id: str) -> str:
    """A segment of a launch by its model and setting: ``mnist, fp16``; a script by its name."""
    parts = {part.segment.id: part.segment for part in record.segments}
    if (own := parts.get(segment_id)) is None:
        return segment_id
    setting = setting_name(own.engine, own.compression, own.reduction)
    return own.model if len(parts) == 1 else f"{own.model}, {setting}"


def measure(options: BenchOptions | RunOptions, *, progress: SweepProgress | None = None) -> Path:
    """Run the reference models or an unmodified script, as ``hvdprof bench`` and ``run`` do.

    >>> options = BenchOptions(np=[1], models="mnist", num_steps=20, repeats=1, output="runs/bench")
    >>> print(analyze_run(measure(options)).summary()["model"])
    mnist

    Args:
        options: What to measure.
        progress: Shows the progress.

    Returns:
        The run directory, for ``load_run``.

    Raises:
        UsageError: An option cannot be used, or no configuration can run.
        EnvironmentNotReadyError: This machine or another host cannot run it.
        SweepIncompleteError: A launch failed; the run directory keeps what was measured.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        StorageError: The run directory cannot be written.
    """
    return plan_measurement(options, progress=progress).measure()


def resume(
    folder: str | Path,
    *,
    net: bool | None = None,
    progress: SweepProgress | None = None,
    yes: bool = False,
) -> Path:
    """Run what an unfinished run has left, with its own options and settings.

    >>> resume("runs/bench")
    Traceback (most recent call last):
    hvdprof.errors.UsageError: ...

    Args:
        folder: The run directory.
        net: Measure the network first; what the run began with when not given.
        progress: Shows the progress.
        yes: Resume a run that this user's hvdprof did not write, or that was changed since:
            ``plan_resume(folder).what_starts()`` says what it would start.

    Returns:
        The run directory.

    Raises:
        UnreadableInputError: The folder holds no run that this version can resume.
        UsageError: The run is complete, is still running, is of a function, or is of another
            user and ``yes`` is not given.
        HvdprofError: As ``measure``.
    """
    planned = plan_resume(folder, net=net, progress=progress)
    if not planned.is_own and not yes:
        raise UsageError(
            f"{folder} was not written by this user's hvdprof, or was changed since. It would "
            f"start {'; '.join(planned.what_starts())}.",
            hint="Where you trust it: resume(folder, yes=True)",
        )
    return planned.measure()


def options_of(run: Manifest) -> BenchOptions | RunOptions | None:
    """The options that a run was started with; None where its manifest records none.

    ``measure(replace(options, output=None))`` measures the same again, into a new run directory.

    >>> options_of(load_run("runs/example").manifest).np
    '2'

    Secrets of a script's command are ``***`` in a manifest that was read.

    Args:
        run: The manifest, ``load_run(folder).manifest``.

    Raises:
        UnreadableInputError: They are not those of this version.
    """
    # The first runs recorded a part of their options.
    if "np" not in run.options:
        return None
    try:
        options = read_options(run)
        return None if isinstance(options, FunctionOptions) else options
    except ValueError as error:
        raise UnreadableInputError(
            f"The options of the run are not those of this hvdprof ({error}).",
            hint=f"hvdprof {run.hvdprof_version} wrote it.",
        ) from error


def plan_measurement(
    options: BenchOptions | RunOptions,
    *,
    progress: SweepProgress | None = None,
    tools: Tools | None = None,
) -> Measurement:
    """A measurement that is ready to start; nothing is written.

    Args:
        options: What to measure.
        progress: Shows the progress.
        tools: Horovod and MPI; looked for when not given.

    Raises:
        UsageError: An option cannot be used, no configuration can run, or there is no script.
        EnvironmentNotReadyError: This machine cannot run it.
        UnreadableInputError: ``data_dir`` does not hold MNIST's files.
    """
    if isinstance(options, BenchOptions):
        check_bench(options)
        tools = tools or find_tools(bench_launcher(options))
        manifest = prepare_bench(options, KNOWN_MODELS, tools)
    else:
        check_run_options(options)
        tools = tools or find_tools(launcher_name(options))
        manifest = prepare_script(options, tools)
    return Measurement(manifest, tools, progress, output=options.folder, net=options.net)


def plan_resume(
    folder: str | Path, *, net: bool | None = None, progress: SweepProgress | None = None
) -> Measurement:
    """The rest of an unfinished run, ready to start; the arguments are those of ``resume``.

    Raises:
        UnreadableInputError: The folder holds no run that this version can resume.
        UsageError: The run is complete, is still running, or is of a function.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    manifest, is_own = read_for_resuming(Path(folder))
    # What is measured from now on has no neighbours of the other variant.
    manifest.paired_by = ""
    options = options_of(manifest)
    if net is None:
        net = options is None or options.net
    tools = find_tools(str(manifest.settings["launcher"]))
    planned = Measurement(manifest, tools, progress, resumed=Path(folder), net=net)
    planned.is_own = is_own
    return planned


def check_bench(options: BenchOptions) -> None:
    """Find mistakes that show without asking this machine anything.

    Raises:
        UsageError: An option has a value that cannot be used.
        UnreadableInputError: ``data_dir`` does not hold MNIST's files.
    """
    check_bench_options(options, KNOWN_MODELS)
    if options.data_dir is not None:
        # Imports torch, only where the files are asked for.
        from hvdprof.bench_models.digit_data import idx_digits

        idx_digits(Path(options.data_dir))


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
        if options.is_elastic:
            raise UsageError(
                "An elastic job is started by horovodrun, and --sbatch asks for ranks of srun.",
                hint="Write a job script of your own around hvdprof run.",
            )
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
