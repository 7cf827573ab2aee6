"""How busy the machine is with other things: what makes a measurement untrustworthy."""

import os
import resource
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from hvdprof.collect.host_facts import given_cores, host_cores

_PROC_STAT = Path("/proc/stat")
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime: proc_pid_stat(5) counts from 14


@dataclass(frozen=True, slots=True)
class CpuJiffies:
    """Processor time of the whole machine since boot, in jiffies (``/proc/stat``).

    ``busy`` is user, nice, system, irq and softirq time; ``steal`` is what the hypervisor gave to
    other guests; ``total`` is everything, idle and waiting included.
    """

    busy: int
    steal: int
    total: int


@dataclass(frozen=True, slots=True)
class CpuUseResult:
    """What happened on the processors between ``start`` and ``stop``.

    ``other_cores`` is the mean number of cores kept busy by processes outside the measured set,
    ``steal_share`` the share (0..1) of all processor time that the hypervisor withheld, ``wall_s``
    the length of the interval.
    """

    other_cores: float
    steal_share: float
    wall_s: float


class CpuUse:
    """Measures how many of the usable cores other processes keep busy.

    Children of this process count once they have ended and been waited for, so ``stop`` belongs
    after the wait.
    """

    def __init__(self) -> None:
        self._before: CpuJiffies | None = None
        self._own_before_s = 0.0
        self._wall_before_s = 0.0

    def start(self) -> None:
        """Begin an interval."""
        self._before = _read_jiffies()
        self._own_before_s = own_cpu_seconds()
        self._wall_before_s = time.monotonic()

    def stop(self, own_cpu_s: float | None = None) -> CpuUseResult | None:
        """End the interval; ``None`` where the system has no ``/proc/stat``.

        Args:
            own_cpu_s: Processor seconds used by the measured set within the interval, where the
                caller knows better than "this process and its children that have ended".

        Raises:
            RuntimeError: ``start`` was not called.
        """
        if self._wall_before_s == 0.0:
            raise RuntimeError("CpuUse.stop() before CpuUse.start()")
        after = _read_jiffies()
        if self._before is None or after is None:
            return None
        if own_cpu_s is None:
            own_cpu_s = own_cpu_seconds() - self._own_before_s
        wall_s = time.monotonic() - self._wall_before_s
        return cpu_use_between(self._before, after, own_cpu_s=own_cpu_s, wall_s=wall_s)


def cpu_use_between(
    before: CpuJiffies,
    after: CpuJiffies,
    *,
    own_cpu_s: float,
    wall_s: float,
    ticks_per_s: int | None = None,
) -> CpuUseResult:
    """Other processes' cores and the stolen share between two readings of ``/proc/stat``.

    ``other_cores = (busy seconds of the machine - own_cpu_s) / wall_s``, never below 0: the two
    clocks tick differently, which matters in intervals of a few jiffies.
    """
    ticks = ticks_per_s or os.sysconf("SC_CLK_TCK")
    busy_s = (after.busy - before.busy) / ticks
    total = after.total - before.total
    return CpuUseResult(
        other_cores=max(0.0, (busy_s - own_cpu_s) / wall_s) if wall_s > 0 else 0.0,
        steal_share=(after.steal - before.steal) / total if total > 0 else 0.0,
        wall_s=wall_s,
    )


def parse_proc_stat(text: str, cores: Collection[int] | None = None) -> CpuJiffies:
    """The processor time of cores from the text of ``/proc/stat``.

    Guest time is part of user time there and is not counted twice.

    Args:
        text: The file's text.
        cores: The numbers of the cores to add up; None for the whole machine.

    Raises:
        ValueError: The text has no line of one of them with at least four numbers.
    """
    wanted = {"cpu"} if cores is None else {f"cpu{core}" for core in cores}
    lines = (line.split() for line in text.splitlines())
    found = {name: _jiffies(numbers) for name, *numbers in lines if name in wanted}
    if found.keys() != wanted or None in found.values():
        raise ValueError("no line of all processors in /proc/stat")
    cores_found = [jiffies for jiffies in found.values() if jiffies is not None]
    return CpuJiffies(
        busy=sum(core.busy for core in cores_found),
        steal=sum(core.steal for core in cores_found),
        total=sum(core.total for core in cores_found),
    )


def _jiffies(numbers: list[str]) -> CpuJiffies | None:
    if len(numbers) < 4:
        return None
    ticks = [int(number) for number in numbers[:8]]
    user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
    busy = user + nice + system + irq + softirq
    return CpuJiffies(busy=busy, steal=steal, total=busy + idle + iowait + steal)


def load_average() -> float | None:
    """Mean number of runnable processes over the last minute; ``None`` where unknown."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def own_cpu_seconds() -> float:
    """Processor seconds of this process and of its children that have ended and been waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def processes_cpu_seconds(process_ids: Iterable[int]) -> float:
    """Processor seconds of those processes and of their children that have ended.

    A process that has ended counts as 0.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    used = 0
    for process_id in process_ids:
        try:
            stat = Path(f"/proc/{process_id}/stat").read_text(errors="replace")
        except OSError:
            continue
        # The name of the program, in parentheses, can hold spaces.
        fields = stat.rpartition(")")[2].split()
        used += sum(map(int, fields[_TIMES]))
    return used / ticks


def _read_jiffies() -> CpuJiffies | None:
    own = given_cores()
    if host_cores() < len(own):
        # With a quota on processor time, the share of this process in the load is unknown.
        return None
    try:
        return parse_proc_stat(_PROC_STAT.read_text(encoding="utf-8"), own)
    except (OSError, ValueError):
        return None
