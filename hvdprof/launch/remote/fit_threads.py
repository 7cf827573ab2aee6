"""A plan made with the cores of this host, fitted to those that each host of the job has."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hvdprof import units
from hvdprof.collect.host_facts import usable_cores
from hvdprof.launch.launchers.slurm_allocation import find_allocation
from hvdprof.launch.plan.hosts import (
    Capacity,
    Crowd,
    can_pin,
    crowds,
    is_this_host,
    threads_that_fit,
)
from hvdprof.launch.plan.options import SRUN
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.remote.remote_shell import hosts_with_ranks
from hvdprof.rundir.manifest import Manifest, PassRecord, Status
from hvdprof.rundir.recording.sample_format import HostFacts


def capacity_of(settings: Settings, facts: Mapping[str, HostFacts]) -> Capacity:
    """What the hosts of a job offer.

    Inside Slurm that is what the job was given of each node: a probe of a node is a job step of
    its own, which may see fewer processors.

    Args:
        settings: Name the hosts.
        facts: The facts of each host (``collect.host_facts``), by its name.
    """
    if settings.launcher == SRUN:
        given = find_allocation().cores_by_host
        cores = {name: given.get(name) for name in facts}
    else:
        cores = {name: _cores(name, host) for name, host in facts.items()}
    # No GPU may also mean no tool that lists them.
    gpus = {name: len(host.get("gpus") or ()) or None for name, host in facts.items()}
    return Capacity(cores_by_host=cores, gpus_by_host=gpus, nccl=False)


def fit_to_hosts(settings: Settings, manifest: Manifest, capacity: Capacity) -> Settings:
    """The settings with the threads that fit on all hosts, where the user gave no number.

    The passes that have not run are checked against the hosts too: whether ranks oversubscribe
    one, which becomes a warning of the run, and whether each rank can have cores of its own.

    Args:
        settings: As planned.
        manifest: Gets the settings, what was found about its passes, and the warnings.
        capacity: What the hosts offer.
    """
    placed = {
        size: hosts_with_ranks(settings, size)
        for size in sorted({record.size for record in manifest.passes})
    }
    is_new = all(record.status == Status.PLANNED for record in manifest.passes)
    # Threads of passes that have run are those of all: others could not be compared with them.
    by_cores = settings.script is None and settings.options.num_threads is None
    if by_cores and is_new and None not in capacity.cores_by_host.values():
        threads = threads_that_fit(placed.values(), capacity.cores_by_host)
        settings = replace(settings, num_threads=threads)
        manifest.settings = settings.record()
    crowded = {size: crowds(settings, capacity, hosts) for size, hosts in placed.items()}
    for record in manifest.passes:
        if record.status == Status.PLANNED:
            record.oversubscribed = bool(crowded[record.size])
            record.pinned = settings.script is None and can_pin(
                settings, capacity, placed[record.size], timeline=_has_timeline(record)
            )
    present = set(manifest.warnings)
    warnings = _warnings(settings, crowded)
    manifest.warnings += [warning for warning in warnings if warning not in present]
    return settings


def _cores(name: str, host: HostFacts) -> int | None:
    cores = host.get("num_cores")
    # Ranks on this host get what this process was given, which may be less than the host has.
    return min(cores, usable_cores()) if cores and is_this_host(name) else cores


def _has_timeline(record: PassRecord) -> bool:
    return any(segment.segment.timeline for segment in record.segments)


def _warnings(settings: Settings, crowded: Mapping[int, list[Crowd]]) -> Iterator[str]:
    by_host: dict[str, list[tuple[int, Crowd]]] = {}
    for size, hosts in crowded.items():
        for crowd in hosts:
            by_host.setdefault(crowd.host, []).append((size, crowd))
    on_gpus = settings.device == "cuda"
    what = "GPU" if on_gpus else "core"
    wanted = "ranks" if on_gpus or settings.num_threads == 1 else "threads of ranks"
    for host, crowds_of_host in by_host.items():
        offered = crowds_of_host[0][1].offered
        wants = ", ".join(
            f"{units.count(crowd.wanted)} {wanted} at np={size}" for size, crowd in crowds_of_host
        )
        yield f"{host} has {offered} {what}{'s' * (offered != 1)} for {wants} (oversubscribed)."
