"""The hosts of a launch: a plan fitted to their cores, and whether they are still there.

A host that loses its network leaves connections open for a quarter of an hour. So the check opens
a new one, to the port of its remote shell: an answer or a refusal shows that the host is there.
Hosts that do not answer at the start, behind a filter, are not watched.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.recording.sample_format import HostFacts

NO_PROGRESS_S = 8.0
"""Seconds without progress of any rank after which the hosts are checked."""
LEAST_MISSES = 3
LEAST_SILENT_S = 10.0

_PORT = 22
_ANSWER_S = 3.0
_PAUSE_S = 2.0
_MAX_AT_ONCE = 32


def answers(host: str) -> bool:
    """Whether a host answers within three seconds, be it by a refusal."""
    try:
        with socket.create_connection((host, _PORT), _ANSWER_S):
            return True
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


class HostWatch:
    """Watches the hosts of one launch.

    Args:
        hosts: The other hosts, by name with the ranks that run there.
        answers: Whether a host is there; may take some seconds.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        hosts: Mapping[str, Sequence[int]],
        answers: Callable[[str], bool] = answers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answers = answers
        self._clock = clock
        there = self._ask(list(hosts))
        # Once more, since a host that counts as away here is not watched at all.
        there |= self._ask([name for name, answered in there.items() if not answered])
        self.hosts = {name: ranks for name, ranks in hosts.items() if there[name]}
        self._misses = dict.fromkeys(self.hosts, 0)
        self._silent_since_s: dict[str, float] = {}
        self._seen: int | None = None
        self._since_s = clock()
        self._asking: threading.Thread | None = None
        self._asked_s = 0.0

    def look(self, progress: int) -> None:
        """Note how far the ranks are, and check the hosts where none makes progress."""
        now_s = self._clock()
        if progress != self._seen:
            self._seen, self._since_s = progress, now_s
            return
        is_busy = self._asking is not None and self._asking.is_alive()
        if now_s - self._since_s < NO_PROGRESS_S or now_s - self._asked_s < _PAUSE_S or is_busy:
            return
        self._asked_s = now_s
        self._asking = threading.Thread(target=self.ask, name="hvdprof hosts", daemon=True)
        self._asking.start()

    def ask(self) -> None:
        """Ask every host once."""
        for name, is_there in self._ask(list(self.hosts)).items():
            if is_there:
                self._misses[name] = 0
                self._silent_since_s.pop(name, None)
            else:
                self._misses[name] += 1
                self._silent_since_s.setdefault(name, self._clock())

    def ask_to_the_end(self) -> None:
        """Ask until every host has answered, or has not for long enough to be lost."""
        self.ask()
        while any(self._misses[name] > 0 for name in self.hosts if name not in self.lost):
            time.sleep(_PAUSE_S)
            self.ask()

    @property
    def lost(self) -> dict[str, float]:
        """The hosts that are gone, with the seconds since they first did not answer."""
        now_s = self._clock()
        silent = {name: now_s - since_s for name, since_s in self._silent_since_s.copy().items()}
        return {
            name: seconds
            for name, seconds in silent.items()
            if self._misses[name] >= LEAST_MISSES and seconds >= LEAST_SILENT_S
        }

    def _ask(self, names: Sequence[str]) -> dict[str, bool]:
        if not names:
            return {}
        with ThreadPoolExecutor(min(len(names), _MAX_AT_ONCE)) as pool:
            return dict(zip(names, pool.map(self._answers, names), strict=True))


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
            has_timeline = any(segment.segment.timeline for segment in record.segments)
            record.pinned = settings.script is None and can_pin(
                settings, capacity, placed[record.size], timeline=has_timeline
            )
    present = set(manifest.warnings)
    warnings = _warnings(settings, crowded)
    manifest.warnings += [warning for warning in warnings if warning not in present]
    return settings


def _cores(name: str, host: HostFacts) -> int | None:
    cores = host.get("num_cores")
    # Ranks on this host get what this process was given, which may be less than the host has.
    return min(cores, usable_cores()) if cores and is_this_host(name) else cores


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
