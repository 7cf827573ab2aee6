"""The process of a rank: processor time, waits for a core, memory, its cgroup's quota.

Tested in ``tests/collect/devices/test_process_source.py``.
"""

import os
import resource
import sys
from pathlib import Path

from hvdprof.collect.devices.kernel_file import KernelFile
from hvdprof.collect.devices.source import Source, Values
from hvdprof.collect.host_facts import cgroups
from hvdprof.rundir.recording import sample_format as names

_PROC = Path("/proc")
_STAT_TIMES = slice(11, 15)
"""utime, stime, cutime, cstime behind the name of the program, in ``/proc/<pid>/stat``."""


class ProcessSource(Source):
    """This process with the workers that it started by ``multiprocessing``.

    Args:
        proc: Where the kernel describes processes.
        groups: The control groups of this process; those of the system by default.
    """

    scope = names.RANK

    def __init__(self, proc: Path = _PROC, groups: list[Path] | None = None) -> None:
        self._proc = proc
        self._memory = KernelFile(proc / "self/statm")
        # Of the main thread: others may sleep on purpose, or spin.
        self._schedule = KernelFile(proc / "self/schedstat")
        folders = cgroups() if groups is None else groups
        self._quotas = [KernelFile(folder / "cpu.stat") for folder in folders]
        self._scheduled: tuple[int, int] | None = None
        self._periods: list[tuple[int, int]] = []
        self._workers: dict[int, tuple[KernelFile, KernelFile]] = {}
        self._awake_ns: dict[int, int] = {}
        self._awake_s = 0.0
        self._ended_s = 0.0
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Values:
        """The values now."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        values: Values = {
            names.CPU: own.ru_utime + own.ru_stime + self._workers_s(),
            names.WORKERS: float(len(self._workers)),
            names.MAJOR_FAULTS: float(own.ru_majflt),
        }
        if pages := self._memory.text().split():
            values[names.RSS] = float(int(pages[1]) * resource.getpagesize())
        values |= self._of_main_thread() | self._of_workers()
        if (throttled := self._throttled()) is not None:
            values[names.THROTTLED] = throttled
        return values

    def close(self) -> None:
        """Close the files of the kernel."""
        own = (self._memory, self._schedule, *self._quotas)
        for file in (*own, *(file for files in self._workers.values() for file in files)):
            file.close()

    def _workers_s(self) -> float:
        """Processor seconds of workers, those that have ended included as far as they were seen."""
        module = sys.modules.get("multiprocessing.process")
        # The public list of them would wait for those that ended, which is the script's business.
        children = tuple(getattr(module, "_children", ()))
        alive = {child.pid for child in children if child.pid}
        for gone in self._workers.keys() - alive:
            self._awake_ns.pop(gone, None)
            for file in self._workers.pop(gone):
                file.close()
        for pid in alive - self._workers.keys():
            files = (KernelFile(self._proc / f"{pid}/{name}") for name in ("stat", "schedstat"))
            self._workers[pid] = next(files), next(files)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = ended.ru_utime + ended.ru_stime
        for worker, _ in self._workers.values():
            fields = worker.text().rpartition(")")[2].split()
            used += sum(map(int, fields[_STAT_TIMES])) * self._tick_s
        # Between the end of a worker and the wait for it, its time stands nowhere.
        self._ended_s = max(self._ended_s, used)
        return self._ended_s

    def _of_workers(self) -> Values:
        """Seconds in which the main threads of workers had a core, or waited for one, so far."""
        texts = {pid: schedule.text() for pid, (_, schedule) in self._workers.items()}
        if not any(texts.values()) and not self._awake_s:
            return {}
        for pid, text in texts.items():
            now_ns = sum(map(int, text.split()[:2]))
            before_ns = self._awake_ns.get(pid, now_ns)
            self._awake_s += max(now_ns - before_ns, 0) / 1e9
            self._awake_ns[pid] = max(now_ns, before_ns)
        return {names.WORKERS_AWAKE: self._awake_s}

    def _of_main_thread(self) -> Values:
        """Its time on cores, and of the time since the last call in which it could run the rest."""
        numbers = self._schedule.text().split()
        if len(numbers) != 3:
            return {}
        now = int(numbers[0]), int(numbers[1])
        before, self._scheduled = self._scheduled or now, now
        ran, waited = (new - old for new, old in zip(now, before, strict=True))
        share = waited / (ran + waited) if ran + waited > 0 else 0.0
        return {names.MAIN_THREAD: now[0] / 1e9, names.CORE_WAIT: share}

    def _throttled(self) -> float | None:
        """The share of periods since the last call in which a group had no quota left.

        0 without a quota; None where the kernel does not say.
        """
        texts = [file.numbers() for file in self._quotas]
        if not any(texts):
            return None
        now = [(text.get("nr_periods", 0), text.get("nr_throttled", 0)) for text in texts]
        before, self._periods = self._periods or now, now
        passed = [
            (periods - old, throttled - before_throttled)
            for (periods, throttled), (old, before_throttled) in zip(now, before, strict=True)
        ]
        return max((part / of for of, part in passed if of > 0), default=0.0)
