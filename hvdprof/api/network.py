"""Measure the network between hosts: measure_net."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from hvdprof.api.options import NetOptions
from hvdprof.errors import HvdprofError
from hvdprof.launch.launchers.choose_launcher import find_launcher
from hvdprof.launch.plan.options import check_options
from hvdprof.launch.remote.host_survey import host_records, survey_hosts
from hvdprof.launch.remote.net_measurement import (
    THOROUGH,
    NetEffort,
    NetProbe,
    net_settings,
    sizes_of,
)
from hvdprof.launch.remote.remote_shell import host_shell
from hvdprof.launch.run.bench_run import find_tools, machine_of, manifest_without_passes
from hvdprof.launch.run.run_folder import make_run_folder
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
            settings.controller,
            tools.mpi,
            settings.launcher,
            mpi_library=tools.horovod.mpi_library,
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
