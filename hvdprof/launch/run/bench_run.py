"""Prepares a benchmark run: checks, design, run directory; or reads one to resume."""

import datetime as dt
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hvdprof import __version__
from hvdprof.collect.host_facts import host_facts, usable_cores
from hvdprof.errors import EnvironmentNotReadyError, UnreadableInputError, UsageError
from hvdprof.launch.launchers.batch_launch import hosts_of_job
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel, Machine, bench_launcher, bench_settings
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.environment import inherited_environment, is_on_this_host
from hvdprof.launch.plan.hosts import Capacity, is_this_host, parse_hosts
from hvdprof.launch.plan.options import (
    DEVICES,
    IN_A_JOB,
    PLACING_THEMSELVES,
    TENSORFLOW,
    WITHOUT_HOROVOD,
    record_of,
)
from hvdprof.launch.plan.preflight import (
    AUTO,
    GLOO,
    MPI,
    check_known,
    choose_controller,
    require_open_files,
)
from hvdprof.launch.plan.settings import Resolved, Settings, read_settings
from hvdprof.launch.plan.time_budget import fit_budget
from hvdprof.launch.plan.workload import git_state, versions
from hvdprof.launch.run.run_folder import runs_folder
from hvdprof.launch.run.script_launcher import Tools, launcher_of
from hvdprof.launch.run.sweep import Sweep
from hvdprof.launch.run.sweep_state import SweepProgress
from hvdprof.machine.install.build_tools import available_memory_bytes
from hvdprof.machine.install.horovod_features import HorovodBuild, require_tensorflow
from hvdprof.rundir.gpu_crowd import PRICE_OPTION, price_in
from hvdprof.rundir.layout import RESUME_NAME, RunPaths
from hvdprof.rundir.manifest import MANIFEST_SCHEMA_VERSION, Manifest, Status
from hvdprof.rundir.masking import mask_command, recorded_environment
from hvdprof.rundir.plan import DATA_PARALLEL_ENGINE, TF_ENGINES
from hvdprof.rundir.resume_file import is_masked, read_resume_file
from hvdprof.rundir.run_lock import exclusive_run
from hvdprof.rundir.written_file import check_place


def prepare_bench(
    options: BenchOptions, known_models: Mapping[str, KnownModel], tools: Tools
) -> Manifest:
    """The manifest of a run that has not started: settings, passes, skipped cells, provenance.

    Raises:
        UsageError: An option cannot be used.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    launcher = bench_launcher(options)
    if not tools.horovod.torch and launcher != TENSORFLOW:
        raise EnvironmentNotReadyError(
            f"Horovod {tools.horovod.version} was built for {tools.horovod.framework} alone, and "
            "the reference models are PyTorch's.",
            hint="hvdprof run takes TensorFlow scripts; without Horovod: hvdprof bench --engine "
            "tf-multiworker; for the bench of Horovod: hvdprof install-horovod",
        )
    machine = machine_of(
        tools, controller=options.controller, device=options.device, launcher=launcher
    )
    if options.launcher in IN_A_JOB:
        # The nodes of the allocation may have more or fewer cores than this one.
        tasks = sum(host.slots for host in hosts_of_job(options.launcher))
        machine = replace(machine, num_slots=tasks)
    settings = bench_settings(options, known_models, machine)
    if set(settings.engines) & set(TF_ENGINES):
        require_tensorflow()
    num_gpus = machine.num_gpus if settings.device == "cuda" else 0
    if DATA_PARALLEL_ENGINE in settings.engines and num_gpus < 2:
        raise EnvironmentNotReadyError(
            f"--engine data-parallel needs two GPUs: DataParallel has a replica on each, and "
            f"this would run on {num_gpus or 'CPUs'}{' GPU' * num_gpus}.",
            hint="--engine ddp runs on CPUs, or on one GPU, as well.",
        )
    manifest = planned_manifest(settings, machine, tools)
    manifest.name = options.name
    fit_budget(manifest, runs_folder(options.folder), is_given=options.budget is not None)
    return manifest


def machine_of(tools: Tools, *, controller: str, device: str, launcher: str = AUTO) -> Machine:
    """The properties of this machine, with the controller and the device to use on it.

    Ranks of ``torchrun`` need no controller of Horovod; their backend is the script's choice.

    Raises:
        UsageError: No controller or device has that name.
        EnvironmentNotReadyError: This machine does not have it.
    """
    if launcher in WITHOUT_HOROVOD:
        controller = GLOO
    elif launcher in PLACING_THEMSELVES and tools.horovod.mpi and controller in (AUTO, MPI):
        # Its MPI need have no mpirun.
        controller = MPI
    else:
        controller = choose_controller(controller, tools.horovod, tools.mpi)
    return Machine(
        controller=controller,
        device=_choose_device(device, tools.horovod),
        num_cores=usable_cores(),
        num_gpus=tools.horovod.cuda_device_count,
        memory_bytes=available_memory_bytes(),
    )


def planned_manifest(settings: Settings, machine: Machine, tools: Tools) -> Manifest:
    """The manifest of settings, with the passes that they mean on this machine.

    Raises:
        UsageError: No pass of them can run, or ``HVDPROF_PRICE`` is no price.
        EnvironmentNotReadyError: The launcher may not open as many files as it needs.
    """
    if is_on_this_host(settings):
        require_open_files(max(settings.sizes))
    design = plan_design(settings, _capacity(settings, machine, tools.horovod))
    if not design.passes:
        raise UsageError(
            "Nothing of this design can run.",
            hint="; ".join(sorted({cell.reason for cell in design.skipped})),
        )
    manifest = manifest_without_passes(settings, tools)
    manifest.options = record_of(settings.options)
    if manifest.options.get(PRICE_OPTION) is None and (price := price_in(os.environ)) is not None:
        manifest.options[PRICE_OPTION] = price
    manifest.passes, manifest.skipped = design.passes, design.skipped
    return manifest


def manifest_without_passes(settings: Resolved, tools: Tools) -> Manifest:
    """The manifest of settings with their provenance, without any pass."""
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version=__version__,
        name="",
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        command=mask_command(["hvdprof", *sys.argv[1:]]),
        settings=settings.record(),
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
    progress: SweepProgress,
    *,
    launcher: Launcher | None = None,
) -> Sweep:
    """The sweep that runs what a manifest plans, into a run directory.

    Args:
        manifest: The prepared run, or one to resume. Launches that were made with other versions
            become a warning of it.
        folder: The run directory; it need not exist yet.
        tools: Horovod and MPI.
        progress: Shows the progress.
        launcher: Starts the ranks; the one that the settings name when not given.

    Raises:
        UsageError: The launcher cannot start ranks of this controller.
        EnvironmentNotReadyError: The program of the launcher is not there.
    """
    settings = read_settings(manifest)
    if any(record.status != Status.PLANNED for record in manifest.passes):
        before, now = manifest.versions, versions(tools.horovod, tools.mpi)
        changed = [
            f"{name} {before.get(name, 'none')} and {now.get(name, 'none')}"
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        ]
        warning = f"Launches of this run cannot be compared: they had {', '.join(changed)}."
        if changed and warning not in manifest.warnings:
            manifest.warnings.append(warning)
    return Sweep(
        settings=settings,
        manifest=manifest,
        paths=RunPaths(folder),
        launcher=launcher or launcher_of(settings, tools),
        mpi=tools.mpi,
        progress=progress,
        environment=inherited_environment(os.environ),
    )


def read_for_resuming(folder: Path) -> tuple[Manifest, bool]:
    """The manifest of a run to resume with its secrets, and whether this user's hvdprof wrote it.

    Raises:
        UnreadableInputError: The folder holds no run, or none that this version can resume.
        UsageError: The run is complete, is still running, is of a function, or was copied without
            the secrets of its command.
        StorageError: Another user could exchange its files.
    """
    with exclusive_run(folder):
        manifest = Manifest.read(folder)
        check_place(folder)
        given = read_resume_file(folder)
    if manifest.status == Status.DONE:
        raise UsageError(
            f"{folder} is complete; there is nothing to resume.", hint=f"hvdprof analyze {folder}"
        )
    try:
        if given is not None:
            manifest.settings, manifest.options = given.current()
        settings = read_settings(manifest)
    except ValueError as error:
        raise UnreadableInputError(
            f"The settings in {folder} are not those of this hvdprof ({error}).",
            hint=f"hvdprof {manifest.hvdprof_version} wrote it; resume with that version.",
        ) from error
    if settings.is_function:
        raise UsageError(
            f"{folder} is of a function, and functions are not stored in run directories.",
            hint="Measure the function again: hvdprof.api.FunctionRunner(...).run(...)",
        )
    if given is None and is_masked(manifest.settings, manifest.options):
        raise UsageError(
            f"{folder} lacks {RESUME_NAME}, which holds the secrets of its command.",
            hint="Start a new run with the whole command.",
        )
    return manifest, given is not None and given.is_own


def _choose_device(wanted: str, horovod: HorovodBuild) -> str:
    check_known("--device", wanted, DEVICES)
    if wanted == "cuda" and not horovod.cuda_available:
        raise EnvironmentNotReadyError(
            "torch finds no GPU here, so --device cuda cannot run.", hint="hvdprof doctor"
        )
    if wanted == "auto":
        return "cuda" if horovod.cuda_available else "cpu"
    return wanted


def _capacity(settings: Settings, machine: Machine, horovod: HorovodBuild) -> Capacity:
    names = [host.name for host in parse_hosts(settings.hosts)] if settings.hosts else ["localhost"]
    # Where ranks will be is known to their launcher alone.
    is_here = settings.launcher not in PLACING_THEMSELVES
    own = {name for name in names if is_here and is_this_host(name)}
    return Capacity(
        cores_by_host={name: machine.num_cores if name in own else None for name in names},
        gpus_by_host={name: machine.num_gpus if name in own else None for name in names},
        nccl=horovod.nccl and settings.device == "cuda",
    )
