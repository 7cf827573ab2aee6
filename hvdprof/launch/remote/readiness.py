"""Asking the hosts of a job what they have, before its first pass.

Tested in ``tests/launch/remote/test_remote_launch.py``.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.plan.hosts import is_this_host
from hvdprof.launch.plan.options import TORCHRUN
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.remote.host_survey import host_records, survey_hosts
from hvdprof.launch.remote.remote_shell import HostShell, hosts_with_ranks
from hvdprof.rundir.host_format import HostFacts


def has_other_hosts(settings: Settings) -> bool:
    """Whether a rank of these settings runs on another host than this."""
    return not all(is_this_host(name) for name in hosts_with_ranks(settings))


@dataclass(frozen=True, slots=True)
class AskedHosts:
    """What hosts answered: ``records`` for the manifest, the host that asked first.

    ``facts`` are those of the hosts with ranks by the names that the settings have for them, and
    ``apart`` the ones that do not see the run directory.
    """

    records: list[dict[str, Any]]
    facts: dict[str, HostFacts]
    apart: tuple[str, ...]


def ask_hosts(
    settings: Settings,
    known: Sequence[dict[str, Any]],
    folder: Path,
    shell: HostShell,
) -> AskedHosts:
    """Ask every host of a job what it has.

    Args:
        settings: Name the hosts.
        known: The hosts of the manifest.
        folder: The run directory.
        shell: How they are reached.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; all such hosts are named. Or none of
            them sees the run directory, so that the progress of the ranks would be unknown; a
            function brings its recordings back itself.
        StorageError: The run directory cannot be written to.
    """
    names = list(hosts_with_ranks(settings))
    # The host that starts the ranks needs the same versions too.
    asker = [] if any(is_this_host(name) for name in names) else [socket.gethostname()]
    probes = survey_hosts(
        [*names, *asker],
        shell,
        folder=folder,
        controller=settings.controller,
        needs_horovod=settings.launcher != TORCHRUN,
    )
    apart = tuple(name for name in names if not probes[name].shares_folder)
    if len(apart) == len(names) and not settings.is_function:
        raise EnvironmentNotReadyError(
            f"None of {', '.join(names[:8])} sees {folder}, so their progress cannot be followed.",
            hint="Start hvdprof on one of them, or name a folder with --output that one shares.",
        )
    records = host_records(probes)
    surveyed = {host["hostname"] for host in records}
    others = [host for host in known if host["hostname"] not in surveyed]
    # The first host of a manifest is the one that started the run.
    records.sort(key=lambda host: host["hostname"] != socket.gethostname())
    facts = {name: probes[name].host for name in names}
    return AskedHosts([*records, *others], facts, apart)
