"""What is done with the hosts of a job before its first pass."""

import socket

from hvdprof.launch.host_shell import host_shell, hosts_with_ranks, is_this_host
from hvdprof.launch.host_survey import host_records, survey_hosts
from hvdprof.launch.sweep import Sweep


def survey_of_sweep(sweep: Sweep) -> None:
    """Ask every host of a sweep what it has, and write it into the manifest.

    A sweep on this host alone asks nobody.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; all such hosts are named.
        StorageError: The run directory cannot be written to.
    """
    names = list(hosts_with_ranks(sweep.settings))
    if all(is_this_host(name) for name in names):
        return
    if not any(is_this_host(name) for name in names):
        # It starts the ranks: its launcher must be of the same version too.
        names.append(socket.gethostname())
    briefs = survey_hosts(
        names,
        host_shell(sweep.settings, sweep.environment),
        folder=sweep.paths.folder,
        controller=sweep.settings.controller,
    )
    found = host_records(briefs)
    surveyed = {host["hostname"] for host in found}
    others = [host for host in sweep.manifest.hosts if host["hostname"] not in surveyed]
    # The first host of a manifest is the one that started the run.
    found.sort(key=lambda host: host["hostname"] != socket.gethostname())
    sweep.manifest.hosts = [*found, *others]
    sweep.manifest.write(sweep.paths)
