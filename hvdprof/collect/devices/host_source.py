"""The process of a rank and its host, as the kernel has them in ``/proc`` and ``/sys``."""

import contextlib
import os
import re
import resource
import sys
from pathlib import Path

from hvdprof.collect.devices.sample_window import Source, Values
from hvdprof.collect.host_facts import cgroups, given_cores
from hvdprof.rundir.recording import sample_format as names

_SECTOR_BYTES = 512
"""In ``/proc/diskstats``, also of disks with larger sectors."""

_MOST_CLOCKS = 8
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d*")
"""Block devices without a disk of their own: what others hold would count twice."""

_PRESSURE = {"psi_cpu": "cpu", "psi_memory": "memory", "psi_io": "io"}

_MOST_BYTES = 1 << 18

_PROC = Path("/proc")
_STAT_TIMES = slice(11, 15)
"""utime, stime, cutime, cstime behind the name of the program, in ``/proc/<pid>/stat``."""


class HostSource(Source):
    """This host by its ``proc`` and ``sys``; of a container, what it sees of the host."""

    scope = names.HOST

    def __init__(self, root: Path = Path("/")) -> None:
        self._cores = KernelFile(root / "proc/stat")
        self._pressure = {
            name: KernelFile(root / "proc/pressure" / what) for name, what in _PRESSURE.items()
        }
        self._memory = KernelFile(root / "proc/meminfo")
        self._paging = KernelFile(root / "proc/vmstat")
        self._disk_rows = KernelFile(root / "proc/diskstats")
        self._net_rows = KernelFile(root / "proc/net/dev")
        self._disks = {
            path.name
            for path in (root / "sys/block").glob("*")
            if not _NO_DISK.fullmatch(path.name)
        }
        cards = {path.parent.name for path in (root / "sys/class/net").glob("*/device")}
        # Bridges and tunnels would count what a card carries twice.
        self._cards = cards or None
        clocks = (
            root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq"
            for core in given_cores()[:_MOST_CLOCKS]
        )
        self._clocks = [KernelFile(path) for path in clocks if path.exists()]
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read(self) -> Values:
        """The values now."""
        values = self._of_cores()
        for name, file in self._pressure.items():
            for kind, *pairs in file.rows():
                if kind == "some":
                    values[name] = int(pairs[-1].removeprefix("total=")) / 1e6
        memory = self._memory.numbers()
        if "MemAvailable" in memory:
            values[names.AVAILABLE] = 1024.0 * memory["MemAvailable"]
        paging = self._paging.numbers()
        for name, key in ((names.SWAP_IN, "pswpin"), (names.SWAP_OUT, "pswpout")):
            if key in paging:
                values[name] = float(paging[key] * self._page_bytes)
        return values | self._of_disks() | self._of_network()

    def close(self) -> None:
        """Close the files of the kernel."""
        rows = (self._cores, self._memory, self._paging, self._disk_rows, self._net_rows)
        for file in (*rows, *self._pressure.values(), *self._clocks):
            file.close()

    def _of_cores(self) -> Values:
        values: Values = {}
        name, *ticks = self._cores.text().partition("\n")[0].split() or [""]
        if name == "cpu" and len(ticks) >= 8:
            user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
            values[names.BUSY] = (user + nice + system + irq + softirq) * self._tick_s
            values[names.STEAL] = steal * self._tick_s
        clocks = [int(text) for file in self._clocks if (text := file.text().strip()).isdecimal()]
        if clocks:
            values["core_clock"] = 1e3 * sum(clocks) / len(clocks)
        return values

    def _of_disks(self) -> Values:
        rows = [row for row in self._disk_rows.rows() if len(row) > 9 and row[2] in self._disks]
        if not rows:
            return {}
        return {
            "disk_read": float(_SECTOR_BYTES * sum(int(row[5]) for row in rows)),
            "disk_write": float(_SECTOR_BYTES * sum(int(row[9]) for row in rows)),
        }

    def _of_network(self) -> Values:
        received = sent = 0
        for line in self._net_rows.text().splitlines():
            name, colon, numbers = line.partition(":")
            card = name.strip()
            counts = numbers.split()
            is_counted = card in self._cards if self._cards is not None else card != "lo"
            if colon and is_counted and len(counts) >= 9:
                received += int(counts[0])
                sent += int(counts[8])
        return {"net_in": float(received), "net_out": float(sent)}


class KernelFile:
    """A file that stays open; it reads as empty where there is none."""

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self) -> str:
        """What it holds now."""
        if self._descriptor < 0:
            return ""
        try:
            return os.pread(self._descriptor, _MOST_BYTES, 0).decode("utf-8", "replace")
        except OSError:
            # Pressure that the kernel was not built to account for.
            return ""

    def rows(self) -> list[list[str]]:
        """Its lines as words."""
        return [line.split() for line in self.text().splitlines()]

    def numbers(self) -> dict[str, int]:
        """Its lines ``name number`` or ``name: number unit``."""
        return {
            row[0].rstrip(":"): int(row[1])
            for row in self.rows()
            if len(row) >= 2 and row[1].isdecimal()
        }

    def close(self) -> None:
        """Close it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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
