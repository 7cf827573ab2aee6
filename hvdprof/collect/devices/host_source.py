"""The host of a rank: cores, pressure, memory, swap, disks, network.

Tested in ``tests/collect/devices/test_host_source.py``.
"""

import os
import re
from pathlib import Path

from hvdprof.collect.devices.kernel_file import KernelFile
from hvdprof.collect.devices.source import Source, Values
from hvdprof.collect.host_facts import given_cores
from hvdprof.rundir.recording import sample_format as names

_SECTOR_BYTES = 512
"""In ``/proc/diskstats``, also of disks with larger sectors."""

_MOST_CLOCKS = 8
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d*")
"""Block devices without a disk of their own: what others hold would count twice."""

_PRESSURE = {"psi_cpu": "cpu", "psi_memory": "memory", "psi_io": "io"}


class HostSource(Source):
    """This host; of a container, what it sees of the host.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """

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
