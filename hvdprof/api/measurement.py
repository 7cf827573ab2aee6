"""A measurement that is ready to start: Measurement."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.launchers.choose_launcher import find_launcher
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.plan.options import TORCHRUN
from hvdprof.launch.plan.preflight import GLOO, parse_duration
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.settings import Settings, read_settings
from hvdprof.launch.plan.time_budget import TimePlan, time_plan
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.remote.net_measurement import BRIEF, NetProbe
from hvdprof.launch.remote.remote_launch import ready_hosts
from hvdprof.launch.remote.remote_shell import hosts_with_ranks
from hvdprof.launch.run.bench_run import sweep_of
from hvdprof.launch.run.run_folder import make_run_folder, new_run_folder, runs_folder
from hvdprof.launch.run.script_launcher import Tools, is_launcher_by_imports, launcher_of
from hvdprof.launch.run.sweep import Sweep
from hvdprof.launch.run.sweep_state import SilentProgress, SweepProgress
from hvdprof.machine.idle import wait_for_idle
from hvdprof.model.cell_key import ranks_beside, setting_name
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command, mask_value
from hvdprof.rundir.plan import TORCH_DISTRIBUTED_ENGINES
from hvdprof.rundir.stopping import KnownCell


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
        is_own: False for a resumed run that this user's hvdprof did not write, or that was changed
            since: what it starts is the choice of another user.
    """

    def __init__(
        self,
        manifest: Manifest,
        tools: Tools,
        progress: SweepProgress | None,
        *,
        output: Path | None = None,
        resumed: Path | None = None,
        net: bool = True,
    ) -> None:
        self.manifest = manifest
        self.is_own = True
        self._tools = tools
        self._progress = progress or SilentProgress()
        self._output = output
        self._folder = resumed
        self._net = net
        # Found before the run directory is made: without a launcher there is no run.
        self._launcher: Launcher = launcher_of(read_settings(manifest), tools)
        self._sweep: Sweep | None = None
        self._is_idle = False

    @property
    def folder(self) -> Path:
        """The run directory; before it is made, the name that it would get now."""
        return self._folder or new_run_folder(self._output, self.manifest.name)

    @property
    def resume_path(self) -> Path:
        """The file of the run directory that holds the command with its secrets."""
        return RunPaths(self.folder).resume

    def what_starts(self) -> list[str]:
        """Clauses on what the settings start, unmasked: command, variables, hosts."""
        settings = self.settings
        script, elastic, data_dir = settings.script, settings.elastic, settings.of_models.data_dir
        words = [*(f"{name}={value}" for name, value in settings.variables.items())]
        words += ["hvdprof bench"] if script is None else [shlex.join(script.command)]
        return [
            printable(clause)
            for clause in (
                " ".join(words),
                f"on the hosts {settings.hosts}" if settings.hosts else "",
                f"on the hosts of {elastic.host_discovery_script}" if elastic else "",
                f"with data of {data_dir}" if data_dir else "",
            )
            if clause
        ]

    @property
    def has_secret(self) -> bool:
        """Whether the command of the script, or a variable of ``--env``, seems to hold a secret.

        ``resume_path`` keeps the command as it is, because ``resume`` needs it.
        """
        settings = self.settings
        command = list(settings.script.command) if settings.script else []
        variables = settings.variables.items()
        is_masked = any(mask_value(name, value) != value for name, value in variables)
        return is_masked or mask_command(command) != command

    @property
    def shown_command(self) -> list[str]:
        """The command of a script, or of ``bench``, after the variables of ``--env``; masked."""
        settings = self.settings
        models = ",".join(model.name for model in settings.models)
        bench = ("hvdprof", "bench", "--models", models)
        command = list(bench if settings.script is None else settings.script.command)
        words = [f"{name}={mask_value(name, value)}" for name, value in settings.variables.items()]
        return [*words, *mask_command(command)]

    @property
    def settings(self) -> Settings:
        """What the run does, after presets and defaults are filled in."""
        return read_settings(self.manifest)

    @property
    def is_torch_distributed(self) -> bool:
        """Whether no launch reduces by Horovod: trace launches write no Horovod timeline then."""
        engines = {record.engine for record in self.manifest.passes}
        return engines <= set(TORCH_DISTRIBUTED_ENGINES)

    @property
    def is_launcher_by_imports(self) -> bool:
        """Whether ``torchrun`` was chosen, for what the script imports."""
        options = self.settings.options
        return isinstance(options, RunOptions) and is_launcher_by_imports(options)

    def time_plan(self) -> TimePlan:
        """How long the launches take, estimated by those of this run, else of an earlier one."""
        return time_plan(self.manifest, runs_folder(self._folder or self._output))

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

    @property
    def beside_ranks(self) -> str:
        """A sentence on the processes that take cores beside the ranks; empty without any."""
        return ranks_beside(record.engine for record in self.manifest.passes)

    def skipped(self) -> dict[str, list[str]]:
        """Reasons, each with the configurations that are skipped for it."""
        by_reason: dict[str, list[str]] = {}
        for cell in self.manifest.skipped:
            setting = setting_name(cell.engine, cell.compression, cell.reduction)
            what = f"{cell.model} np={cell.size} {setting}"
            by_reason.setdefault(cell.reason, []).append(what)
        return by_reason

    def make_folder(self, *, share: bool = False) -> Path:
        """Make the run directory with its manifest; that of a resumed run is there already.

        Args:
            share: Whether the group of the user may read it.

        Raises:
            StorageError: The folder exists with something in it, or cannot be made.
        """
        if self._folder is None:
            name = self.manifest.name
            self._folder = make_run_folder(self.manifest, self._output, name, share=share)
        return self._folder

    def wait_for_idle(self, *, on_look: Callable[[float], None] = lambda cores: None) -> float:
        """Wait once until other processes leave the cores of this host alone, where asked to.

        Args:
            on_look: Called every second with the cores that they keep busy.

        Returns:
            The seconds that it took.

        Raises:
            EnvironmentNotReadyError: They never did within the time, or that is not known.
        """
        given = self.settings.options.wait_for_idle
        if given is None or self._is_idle:
            return 0.0
        limit_s = parse_duration("--wait-for-quiet", given)
        with interruptible():
            waited_s = wait_for_idle(limit_s, on_look=on_look)
        self._is_idle = True
        return waited_s

    def ready_hosts(self) -> None:
        """Ask every host what it has, then measure the network between them once.

        On a single host this does nothing. A network that cannot be measured is a warning.

        Raises:
            EnvironmentNotReadyError: A host cannot run its part; no rank was started.
            StorageError: The run directory cannot be written.
        """
        sweep = self.started_sweep()
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
        self.started_sweep().run()

    def measure(self) -> Path:
        """Wait for an idle machine where asked to, make the run directory, run the launches.

        Returns:
            The run directory.

        Raises:
            HvdprofError: As the steps.
        """
        self.wait_for_idle()
        folder = self.make_folder()
        self.ready_hosts()
        self.run_launches()
        return folder

    def started_sweep(self) -> Sweep:
        """The sweep of the run directory, which is made where it is missing."""
        if self._sweep is None:
            self._sweep = self._sweep_in(self.make_folder())
        return self._sweep

    def _sweep_in(self, folder: Path) -> Sweep:
        sweep = sweep_of(
            self.manifest, folder, self._tools, self._progress, launcher=self._launcher
        )
        sweep.look = look_at_run
        return sweep


def look_at_run(folder: Path, confidence: float) -> list[KnownCell]:
    """How well the cells are known by which the run in a folder is judged.

    Args:
        folder: The run directory, of a run in progress too.
        confidence: The level of the interval by which the run stops.
    """
    # Importing pandas takes a second, which a run without repeats need not wait.
    from hvdprof.analyze.scaling.known_cells import known_cells
    from hvdprof.ingest.load import load_throughput

    return known_cells(load_throughput(folder), confidence)


def measure_network(sweep: Sweep) -> None:
    """Measure the network of a sweep once; a failure of it is a warning of the run."""
    folder = sweep.paths.folder
    if len(hosts_with_ranks(sweep.settings)) < 2 or RunPaths(folder).net.exists():
        return
    try:
        # The probe's ranks exchange by Horovod, also where the job's do not.
        is_torch = sweep.settings.launcher == TORCHRUN
        probe = NetProbe(
            settings=sweep.settings,
            launcher=find_launcher(GLOO, None) if is_torch else sweep.launcher,
            mpi=sweep.mpi,
            effort=BRIEF,
            environment=sweep.environment,
        )
        probe.measure().write(folder)
    except EnvironmentNotReadyError as error:
        sweep.manifest.warnings.append(" ".join(error.message.split()))
