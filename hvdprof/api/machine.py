"""What works on this machine and between hosts: check_machine, install_horovod, measure_net."""

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hvdprof.api.options import NetOptions
from hvdprof.errors import HvdprofError
from hvdprof.launch.launchers.choose_launcher import find_launcher
from hvdprof.launch.plan.options import check_options
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.remote.host_survey import host_records, survey_hosts
from hvdprof.launch.remote.net_measurement import (
    THOROUGH,
    NetEffort,
    NetProbe,
    net_settings,
    sizes_of,
)
from hvdprof.launch.remote.remote_shell import host_shell
from hvdprof.launch.run.bench_run import machine_of, manifest_without_passes
from hvdprof.launch.run.run_folder import make_run_folder
from hvdprof.launch.run.script_launcher import find_tools
from hvdprof.machine.doctor.check_result import Finding, State
from hvdprof.machine.doctor.checks import can_bench, findings_of
from hvdprof.machine.doctor.survey import take_survey
from hvdprof.machine.install.horovod_install import Installer
from hvdprof.machine.install.install_request import InstallRequest, InstallResult, Progress
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Status
from hvdprof.rundir.run_lock import exclusive_run


def measure_net(
    options: NetOptions, *, on_start: Callable[[list[str], Path], None] | None = None
) -> Path:
    """Measure latency and bandwidth between hosts, as ``hvdprof net`` does.

    Args:
        options: Hosts, sizes and seconds.
        on_start: Called with the names of the hosts and the run directory before ranks start.

    Returns:
        The run directory, for ``load_run``.

    Raises:
        UsageError: An option cannot be used, or there are fewer than two hosts.
        EnvironmentNotReadyError: A host cannot run its part, or the measurement failed.
        InterruptedRunError: Ctrl-C or SIGTERM.
        StorageError: The run directory cannot be written.
    """
    check_options(options)
    sizes = sizes_of(options.sizes) if options.sizes else THOROUGH.sizes
    tools = find_tools()
    machine = machine_of(tools, controller=options.controller, device=options.device)
    settings = net_settings(options.hosts, machine, options.launcher)
    manifest = manifest_without_passes(settings, tools)
    probe = NetProbe(
        settings=settings,
        launcher=find_launcher(
            settings.controller, tools.mpi, settings.launcher, mpi_library=tools.horovod.mpi_library
        ),
        mpi=tools.mpi,
        effort=NetEffort(sizes, options.seconds),
    )
    names = probe.host_names()
    folder = make_run_folder(manifest, options.folder, "net")
    try:
        manifest.hosts = host_records(
            survey_hosts(names, host_shell(settings), folder=folder, controller=settings.controller)
        )
        if on_start is not None:
            on_start(names, folder)
        probe.measure().write(folder)
    except HvdprofError:
        # The folder holds nothing that could be resumed.
        with contextlib.suppress(OSError):
            RunPaths(folder).manifest.unlink()
            folder.rmdir()
        raise
    with exclusive_run(folder):
        manifest.status = Status.DONE
        manifest.write(RunPaths(folder))
    return folder


__all__ = [
    "Finding",
    "InstallProgress",
    "InstallRequest",
    "InstallResult",
    "MachineReport",
    "State",
    "check_machine",
    "install_horovod",
]

InstallProgress = Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """What works on this machine.

    Attributes:
        findings: One per thing that was checked, in the order of ``hvdprof doctor``.
        can_bench: Whether ``hvdprof bench`` can run.
        facts: What the findings rest on, as JSON values; secrets are masked.
    """

    findings: tuple[Finding, ...]
    can_bench: bool
    facts: dict[str, object]


def check_machine() -> MachineReport:
    """Check this machine, as ``hvdprof doctor`` does; nothing is changed.

    >>> [finding.name for finding in check_machine().findings][:2]
    ['python', 'torch']
    """
    survey = take_survey()
    findings = findings_of(survey)
    facts = {name: _as_json(value) for name, value in dataclasses.asdict(survey).items()}
    if isinstance(build := facts["horovod"], dict):
        # What the cache is checked by is no fact of the build.
        build.pop("files", None)
    return MachineReport(findings=tuple(findings), can_bench=can_bench(findings), facts=facts)


def install_horovod(request: InstallRequest, progress: InstallProgress) -> InstallResult:
    """Build Horovod for the torch of this Python, install it and try it out.

    Args:
        request: What to build.
        progress: Shows the progress.

    Raises:
        MissingExtraError: torch or another requirement of the build is not installed.
        EnvironmentNotReadyError: The machine lacks something, which the message names.
        BuildFailedError: The build or the trial failed; the message names the log.
        InterruptedRunError: Ctrl-C or SIGTERM; the compilers are ended.
        StorageError: The wheel or the log cannot be written.
    """
    with interruptible():
        return Installer(request, progress).install()


def _as_json(value: object) -> object:
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value
