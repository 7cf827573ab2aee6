"""What the kernel says of the host."""

import os
from pathlib import Path

import pytest

from hvdprof.collect.devices import host_source
from hvdprof.collect.devices.host_source import HostSource

TICKS = os.sysconf("SC_CLK_TCK")
NETWORK = """Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
    lo: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
  eth0: 3000 2 0 0 0 0 0 0 70 2 0 0 0 0 0 0
docker0:9000 2 0 0 0 0 0 0 9000 2 0 0 0 0 0 0
"""
DISKS = """   7 0 loop0 9 9 9000 9 9 9 9000 9 0 0 0
   8 0 sda 1 0 10 0 1 0 4 0 0 0 0
   8 1 sda1 1 0 10 0 1 0 4 0 0 0 0
 253 0 dm-0 1 0 10 0 1 0 4 0 0 0 0
"""


def a_host(root: Path) -> None:
    cores = f"cpu  {3 * TICKS} {TICKS} {TICKS} 99 99 0 {TICKS} {2 * TICKS} 0 0\ncpu0 1 1\n"
    files = {
        "proc/stat": cores,
        "proc/pressure/cpu": "some avg10=1.00 avg60=0.00 avg300=0.00 total=1500000\n",
        "proc/pressure/memory": "some avg10=0.00 total=250000\nfull avg10=0.00 total=900000\n",
        "proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:   2000 kB\n",
        "proc/vmstat": "pgmajfault 4\npswpin 3\npswpout 5\n",
        "proc/diskstats": DISKS,
        "proc/net/dev": NETWORK,
        "sys/class/net/eth0/device/vendor": "0x1\n",
        "sys/class/net/lo/mtu": "1\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for disk in ("loop0", "sda", "dm-0"):
        (root / "sys/block" / disk).mkdir(parents=True)


def test_a_host_is_read_as_the_kernel_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_source, "given_cores", lambda: [0, 1])
    a_host(tmp_path)
    page = os.sysconf("SC_PAGE_SIZE")
    source = HostSource(tmp_path)
    values = source.read()
    source.close()

    assert values == {
        "busy": pytest.approx(6),
        "steal": pytest.approx(2),
        "core_clock": pytest.approx(2.5e9),
        "psi_cpu": 1.5,
        "psi_memory": 0.25,
        "memory_available": 2_048_000,
        "swap_in": 3 * page,
        "swap_out": 5 * page,
        # Of whole disks alone: neither partitions nor what lies on others.
        "disk_read": 10 * 512,
        "disk_write": 4 * 512,
        # Of cards alone: bridges carry the same.
        "net_in": 3000,
        "net_out": 70,
    }
    assert source.read() == {"net_in": 0, "net_out": 0}, "closed files read as empty"


def test_without_a_card_all_but_the_loopback_count(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_text(NETWORK)

    assert HostSource(tmp_path).read() == {"net_in": 12000, "net_out": 9070}
