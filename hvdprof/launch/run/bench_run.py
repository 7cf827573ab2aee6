"""A benchmark run made ready: checks, design, run directory; or taken up again."""

import datetime as dt
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hvdprof import __version__
from hvdprof.collect.host_facts import host_facts, usable_cores
from hvdprof.errors import EnvironmentNotReadyError, StorageError, UnreadableInputError, UsageError
from hvdprof.launch.launchers.choose_launcher import SRUN, find_elastic_launcher, find_launcher
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.launchers.slurm_allocation import find_allocation
from hvdprof.launch.launchers.torchrun import TorchrunForDdp
from hvdprof.launch.plan.capacity import Capacity
from hvdprof.launch.plan.choices import Choices, KnownModel, Machine, complete
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.environment import inherited_environment
from hvdprof.launch.plan.hosts import is_this_host, parse_hosts
from hvdprof.launch.plan.preflight import choose_controller, require_space
from hvdprof.launch.plan.provenance import git_state, versions
from hvdprof.launch.plan.settings import BenchSettings
from hvdprof.launch.run.run_lock import exclusive_run
from hvdprof.launch.run.sweep import Sweep, SweepObserver
from hvdprof.machine.install.horovod_features import HorovodBuild, require_horovod
from hvdprof.machine.mpi import Mpi, find_mpi
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import MANIFEST_SCHEMA_VERSION, Manifest, Status
from hvdprof.rundir.masking import mask_command, recorded_environment
from hvdprof.rundir.plan import DDP_ENGINE

DEVICES = ("auto", "cpu", "cuda")
RUNS_FOLDER = Path("runs")


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs a sweep works with: Horovod as it is built here, and MPI where there is one."""

    horovod: HorovodBuild
    mpi: Mpi | None


def find_tools() -> Tools:
    """What this interpreter's Horovod was built with and the MPI beside it.

    Raises:
        EnvironmentNotReadyError: Horovod is not there or cannot be imported.
    """
    return Tools(require_horovod(), find_mpi())


def prepare(
    choices: Choices,
    known_models: Mapping[str, KnownModel],
    tools: Tools,
    *,
    controller: str,
    device: str,
) -> Manifest:
    """The manifest of a run that has not started: settings, passes, skipped cells, surroundings.

    Raises:
        UsageError: An option cannot be used.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    if not tools.horovod.torch:
        raise EnvironmentNotReadyError(
            f"Horovod {tools.horovod.version} was built for {tools.horovod.framework} alone, and "
            "the reference models are PyTorch's.",
            hint="hvdprof run takes TensorFlow scripts; for the bench: hvdprof install-horovod",
        )
    machine = machine_of(tools, controller=controller, device=device)
    if choices.launcher == SRUN:
        # Its nodes may be others than this one, and have more or fewer cores.
        tasks = sum(host.slots for host in find_allocation().hosts)
        machine = replace(machine, num_slots=tasks)
    return planned_manifest(complete(choices, known_models, machine), machine, tools)


def machine_of(tools: Tools, *, controller: str, device: str) -> Machine:
    """What this machine offers, with the controller and the device that were asked for.

    Raises:
        UsageError: There is no such controller or device.
        EnvironmentNotReadyError: This machine does not have it.
    """
    return Machine(
        controller=choose_controller(controller, tools.horovod, tools.mpi),
        device=_choose_device(device, tools.horovod),
        num_cores=usable_cores(),
        num_gpus=tools.horovod.cuda_device_count,
    )


def planned_manifest(settings: BenchSettings, machine: Machine, tools: Tools) -> Manifest:
    """The manifest of settings, with the passes that they mean on this machine.

    Raises:
        UsageError: None of them can run.
    """
    design = plan_design(settings, _capacity(settings, machine, tools.horovod))
    if not design.passes:
        raise UsageError(
            "Nothing of this design can run.",
            hint="; ".join(sorted({cell.reason for cell in design.skipped})),
        )
    manifest = manifest_without_passes(settings, tools)
    manifest.passes, manifest.skipped = design.passes, design.skipped
    return manifest


def manifest_without_passes(settings: BenchSettings, tools: Tools) -> Manifest:
    """The manifest of settings with what surrounds them, and nothing that is to run."""
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version=__version__,
        name="",
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        command=mask_command(["hvdprof", *sys.argv[1:]]),
        settings=asdict(settings),
        environment=recorded_environment(os.environ),
        versions=versions(tools.horovod, tools.mpi),
        hosts=[dict(host_facts())],
        git=git_state(Path.cwd()),
        passes=[],
        skipped=[],
    )


def sweep_of(
    manifest: Manifest,
    folder: Path,
    tools: Tools,
    observer: SweepObserver,
    *,
    launcher: Launcher | None = None,
) -> Sweep:
    """The sweep that runs what a manifest plans, into a run directory.

    Its launcher is the one that the settings name where none is given. Where it goes on with
    launches that were made with other versions, that becomes a warning of the run.
    """
    settings = BenchSettings.from_manifest(manifest.settings)
    if any(record.status != Status.PLANNED for record in manifest.passes):
        _warn_of_other_versions(manifest, tools)
    return Sweep(
        settings=settings,
        manifest=manifest,
        paths=RunPaths(folder),
        launcher=launcher or _launcher_of(settings, tools),
        mpi=tools.mpi,
        observer=observer,
        environment=inherited_environment(os.environ),
    )


def _warn_of_other_versions(manifest: Manifest, tools: Tools) -> None:
    before, now = manifest.versions, versions(tools.horovod, tools.mpi)
    changed = [
        f"{name} {before.get(name, 'none')} and {now.get(name, 'none')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    warning = f"Launches of this run cannot be compared: they had {', '.join(changed)}."
    if changed and warning not in manifest.warnings:
        manifest.warnings.append(warning)


def _launcher_of(settings: BenchSettings, tools: Tools) -> Launcher:
    if settings.script is not None and settings.script.elastic is not None:
        return find_elastic_launcher(settings.script.elastic)
    launcher = find_launcher(
        settings.controller,
        tools.mpi,
        settings.launcher,
        mpi_library=tools.horovod.mpi_library,
    )
    return TorchrunForDdp(launcher) if DDP_ENGINE in settings.engines else launcher


def make_run_folder(manifest: Manifest, output: Path | None, name: str) -> Path:
    """Make the run directory and write the manifest into it.

    Args:
        manifest: The manifest of the prepared run; gets its name.
        output: The run directory itself; None for ``runs/<time>-<name>``.
        name: A name for the run.

    Raises:
        StorageError: The folder exists with something in it, or cannot be made.
    """
    manifest.name = name
    try:
        require_space(output or RUNS_FOLDER)
        folder = _make_named(output) if output else _make_new(name)
    except OSError as error:
        where = error.filename or output or RUNS_FOLDER
        raise StorageError(f"Could not make {where}: {error.strerror}.") from error
    manifest.write(RunPaths(folder))
    return folder


def _make_named(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()):
        raise StorageError(
            f"{folder} is not empty, and a run is not written over another.",
            hint=f"Name a new folder, or go on with that run (--resume {folder}).",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _make_new(name: str) -> Path:
    # Whose folder is a link to nothing has no place for any name.
    RUNS_FOLDER.mkdir(parents=True, exist_ok=True)
    while True:
        folder = new_run_folder(None, name)
        try:
            folder.mkdir()
        except FileExistsError:
            # A run that was started in the same second has taken the name meanwhile.
            continue
        return folder


def new_run_folder(output: Path | None, name: str) -> Path:
    """The run directory that a new run gets: the one asked for, else ``runs/<time>-<name>``."""
    stamp = dt.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return output or _unused(RUNS_FOLDER / f"{stamp}-{_as_file_name(name)}")


def read_for_resuming(folder: Path) -> Manifest:
    """The manifest of a run to go on with.

    Raises:
        UnreadableInputError: The folder holds no run, or none that this version can go on with.
        UsageError: The run is complete, or still going on.
    """
    with exclusive_run(folder):
        manifest = Manifest.read(folder)
    if manifest.status == Status.DONE:
        raise UsageError(
            f"{folder} is complete; there is nothing to go on with.",
            hint=f"hvdprof analyze {folder}",
        )
    try:
        settings = BenchSettings.from_manifest(manifest.settings)
    except (TypeError, KeyError) as error:
        raise UnreadableInputError(
            f"The settings in {folder} are not those of this hvdprof ({error}).",
            hint=f"It was written by hvdprof {manifest.hvdprof_version}; go on with that version.",
        ) from error
    if settings.script is not None and settings.script.is_function:
        raise UsageError(
            f"{folder} is of a function, which is not kept.",
            hint="Hand it over again: hvdprof.api.FunctionRunner(...).run(...)",
        )
    return manifest


def _choose_device(wanted: str, horovod: HorovodBuild) -> str:
    if wanted not in DEVICES:
        raise UsageError(f"--device {wanted}: not known.", hint=f"Known: {', '.join(DEVICES)}")
    if wanted == "cuda" and not horovod.cuda_available:
        raise EnvironmentNotReadyError(
            "torch finds no GPU here, so --device cuda cannot run.", hint="hvdprof doctor"
        )
    if wanted == "auto":
        return "cuda" if horovod.cuda_available else "cpu"
    return wanted


def _capacity(settings: BenchSettings, machine: Machine, horovod: HorovodBuild) -> Capacity:
    names = [host.name for host in parse_hosts(settings.hosts)] if settings.hosts else ["localhost"]
    own = {name for name in names if is_this_host(name)}
    return Capacity(
        cores_by_host={name: machine.num_cores if name in own else None for name in names},
        gpus_by_host={name: machine.num_gpus if name in own else None for name in names},
        nccl=horovod.nccl and settings.device == "cuda",
    )


def _as_file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"


def _unused(folder: Path) -> Path:
    candidates = (folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))
    return folder if not folder.exists() else next(c for c in candidates if not c.exists())
