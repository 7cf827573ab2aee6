"""What is done with the hosts of a job before its first pass."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hvdprof.launch.host_shell import host_shell, hosts_with_ranks, is_this_host
from hvdprof.launch.host_survey import host_records, survey_hosts
from hvdprof.launch.settings import BenchSettings


def has_other_hosts(settings: BenchSettings) -> bool:
    """Whether a rank of these settings runs on another host than this."""
    return not all(is_this_host(name) for name in hosts_with_ranks(settings))


def ask_hosts(
    settings: BenchSettings,
    known: Sequence[dict[str, Any]],
    folder: Path,
    environment: Mapping[str, str] = os.environ,
) -> list[dict[str, Any]]:
    """The hosts for the manifest, after every one was asked what it has.

    Where all ranks run on this host nobody is asked, and the known hosts come back.

    Args:
        settings: Name the hosts.
        known: The hosts of the manifest.
        folder: The run directory.
        environment: The variables that ranks inherit.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; all such hosts are named.
        StorageError: The run directory cannot be written to.
    """
    names = list(hosts_with_ranks(settings))
    if not has_other_hosts(settings):
        return list(known)
    if not any(is_this_host(name) for name in names):
        # It starts the ranks: its launcher must be of the same version too.
        names.append(socket.gethostname())
    shell = host_shell(settings, environment)
    briefs = survey_hosts(names, shell, folder=folder, controller=settings.controller)
    found = host_records(briefs)
    surveyed = {host["hostname"] for host in found}
    others = [host for host in known if host["hostname"] not in surveyed]
    # The first host of a manifest is the one that started the run.
    found.sort(key=lambda host: host["hostname"] != socket.gethostname())
    return [*found, *others]
