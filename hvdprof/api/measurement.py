"""Measure the reference models or a script: measure, resume.

from hvdprof.api import BenchOptions, analyze_run, load_run, measure

folder = measure(BenchOptions(np=(1, 2), models=("mnist",), preset="quick"))
print(analyze_run(load_run(folder)).verdict.sentence)
"""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.api.options import KNOWN_MODELS, BenchOptions, RunOptions
from hvdprof.errors import EnvironmentNotReadyError, UnreadableInputError
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.plan.bench_settings import check_bench_options
from hvdprof.launch.plan.settings import read_settings
from hvdprof.launch.remote.net_measurement import BRIEF, NetProbe
from hvdprof.launch.remote.remote_launch import ready_hosts
from hvdprof.launch.remote.remote_shell import hosts_with_ranks
from hvdprof.launch.run.bench_run import (
    Tools,
    find_tools,
    launcher_of,
    prepare_bench,
    read_for_resuming,
    sweep_of,
)
from hvdprof.launch.run.run_folder import make_run_folder, new_run_folder
from hvdprof.launch.run.script_run import check_run_options, prepare_script
from hvdprof.launch.run.silent_observer import SilentObserver
from hvdprof.launch.run.sweep import Sweep, SweepObserver
from hvdprof.model.cell_key import setting_name
from hvdprof.rundir.json_codec import decode
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command


def measure(options: BenchOptions | RunOptions, *, observer: SweepObserver | None = None) -> Path:
    """Run the reference models or an unmodified script, as ``hvdprof bench`` and ``run`` do.

    Args:
        options: What to measure.
        observer: Shows the progress.

    Returns:
        The run directory, for ``load_run``.

    Raises:
        UsageError: An option cannot be used, or no configuration can run.
        EnvironmentNotReadyError: This machine or another host cannot run it.
        SweepIncompleteError: A launch failed; the run directory keeps what was measured.
        InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
        StorageError: The run directory cannot be written.
    """
    return plan_measurement(options, observer=observer).measure()


def resume(
    folder: str | Path, *, net: bool | None = None, observer: SweepObserver | None = None
) -> Path:
    """Run what an unfinished run has left, with its own options and settings.

    Args:
        folder: The run directory.
        net: Measure the network first; what the run began with when not given.
        observer: Shows the progress.

    Returns:
        The run directory.

    Raises:
        UnreadableInputError: The folder holds no run that this version can resume.
        UsageError: The run is complete, is still running, or is of a function.
        HvdprofError: As ``measure``.
    """
    return plan_resume(folder, net=net, observer=observer).measure()


def options_of(run: Manifest) -> BenchOptions | RunOptions | None:
    """The options that a run was started with; None where its manifest records none.

    ``measure(replace(options, output=None))`` measures the same again, into a new run directory.

    Args:
        run: The manifest, ``load_run(folder).manifest``.

    Raises:
        UnreadableInputError: They are not those of this version.
    """
    script = run.settings.get("script")
    if not run.options or (script and script["is_function"]):
        return None
    kind: type[BenchOptions | RunOptions] = RunOptions if script else BenchOptions
    try:
        return decode(kind, run.options, "options", unknown_keys=False)
    except ValueError as error:
        raise UnreadableInputError(
            f"The options of the run are not those of this hvdprof ({error}).",
            hint=f"hvdprof {run.hvdprof_version} wrote it.",
        ) from error


def plan_measurement(
    options: BenchOptions | RunOptions, *, observer: SweepObserver | None = None
) -> "Measurement":
    """A measurement that is ready to start; nothing is written.

    Raises:
        UsageError: An option cannot be used, no configuration can run, or there is no script.
        EnvironmentNotReadyError: This machine cannot run it.
        UnreadableInputError: ``data_dir`` does not hold MNIST's files.
    """
    if isinstance(options, BenchOptions):
        check_bench(options)
        tools = find_tools()
        manifest = prepare_bench(options, KNOWN_MODELS, tools)
    else:
        check_run_options(options)
        tools = find_tools()
        manifest = prepare_script(options, tools)
    return Measurement(manifest, tools, observer, output=options.folder, net=options.net)


def plan_resume(
    folder: str | Path, *, net: bool | None = None, observer: SweepObserver | None = None
) -> "Measurement":
    """The rest of an unfinished run, ready to start; the arguments are those of ``resume``.

    Raises:
        UnreadableInputError: The folder holds no run that this version can resume.
        UsageError: The run is complete, is still running, or is of a function.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    manifest = read_for_resuming(Path(folder))
    options = options_of(manifest)
    if net is None:
        net = options is None or options.net
    return Measurement(manifest, find_tools(), observer, resumed=Path(folder), net=net)


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


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """A launch that a measurement starts.

    Attributes:
        id: Its name in the run directory, ``01-np2-throughput-r1``.
        segments: The parts that run in it one after another, each a model with its toggles.
        environment: The variables that are set for it.
        command: The command that starts the ranks.
    """

    id: str
    segments: tuple[str, ...]
    environment: dict[str, str]
    command: tuple[str, ...]


class Measurement:
    """A benchmark or a script that is ready to start; ``measure`` does all that is left.

    Attributes:
        manifest: Settings, passes and warnings of the run.
    """

    def __init__(
        self,
        manifest: Manifest,
        tools: Tools,
        observer: SweepObserver | None,
        *,
        output: Path | None = None,
        resumed: Path | None = None,
        net: bool = True,
    ) -> None:
        self.manifest = manifest
        self._tools = tools
        self._observer = observer or SilentObserver()
        self._output = output
        self._folder = resumed
        self._net = net
        # Found before the run directory is made: without a launcher there is no run.
        self._launcher: Launcher = launcher_of(read_settings(manifest.settings), tools)
        self._sweep: Sweep | None = None

    @property
    def folder(self) -> Path:
        """The run directory; before it is made, the name that it would get now."""
        return self._folder or new_run_folder(self._output, self.manifest.name)

    @property
    def manifest_path(self) -> Path:
        """The file of the manifest in the run directory."""
        return RunPaths(self.folder).manifest

    @property
    def has_secret(self) -> bool:
        """Whether the command of the script seems to hold a secret.

        The manifest keeps the command as it is, because ``resume`` needs it.
        """
        script = self.manifest.settings.get("script") or {}
        command = list(script.get("command", ()))
        return mask_command(command) != command

    def launches(self) -> list[PlannedLaunch]:
        """The launches in their order."""
        sweep = self._sweep_in(self.folder)
        launches = []
        for record in self.manifest.passes:
            job = sweep.job(record)
            segments = tuple(segment.segment.id for segment in record.segments)
            command = tuple(self._launcher.command(job))
            launches.append(PlannedLaunch(record.id, segments, dict(job.environment), command))
        return launches

    def skipped(self) -> dict[str, list[str]]:
        """Reasons, each with the configurations that are skipped for it."""
        by_reason: dict[str, list[str]] = {}
        for cell in self.manifest.skipped:
            setting = setting_name(cell.engine, cell.compression, cell.reduction)
            what = f"{cell.model} np={cell.size} {setting}"
            by_reason.setdefault(cell.reason, []).append(what)
        return by_reason

    def make_folder(self) -> Path:
        """Make the run directory with its manifest; that of a resumed run is there already.

        Raises:
            StorageError: The folder exists with something in it, or cannot be made.
        """
        if self._folder is None:
            self._folder = make_run_folder(self.manifest, self._output, self.manifest.name)
        return self._folder

    def ready_hosts(self) -> None:
        """Ask every host what it has, then measure the network between them once.

        On a single host this does nothing. A network that cannot be measured is a warning.

        Raises:
            EnvironmentNotReadyError: A host cannot run its part; no rank was started.
            StorageError: The run directory cannot be written.
        """
        sweep = self._started_sweep()
        ready_hosts(sweep)
        if self._net:
            measure_network(sweep)

    def run_launches(self) -> None:
        """Run every launch that has no result yet.

        Raises:
            SweepIncompleteError: A launch failed; the others were measured.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
            StorageError: The disk is full; what was measured is kept.
            UsageError: Another process is measuring into the run directory.
        """
        self._started_sweep().run()

    def measure(self) -> Path:
        """Make the run directory, ready the hosts, run the launches.

        Returns:
            The run directory.

        Raises:
            HvdprofError: As the three steps.
        """
        folder = self.make_folder()
        self.ready_hosts()
        self.run_launches()
        return folder

    def _started_sweep(self) -> Sweep:
        if self._sweep is None:
            self._sweep = self._sweep_in(self.make_folder())
        return self._sweep

    def _sweep_in(self, folder: Path) -> Sweep:
        return sweep_of(self.manifest, folder, self._tools, self._observer, launcher=self._launcher)


def measure_network(sweep: Sweep) -> None:
    """Measure the network of a sweep once; a failure of it is a warning of the run."""
    folder = sweep.paths.folder
    if len(hosts_with_ranks(sweep.settings)) < 2 or RunPaths(folder).net.exists():
        return
    probe = NetProbe(
        settings=sweep.settings,
        launcher=sweep.launcher,
        mpi=sweep.mpi,
        effort=BRIEF,
        environment=sweep.environment,
    )
    try:
        probe.measure().write(folder)
    except EnvironmentNotReadyError as error:
        sweep.manifest.warnings.append(" ".join(error.message.split()))
