"""What the kernel says of the host."""

import os
import sys
import types
from pathlib import Path

import pytest

from hvdprof.collect.devices import host_source
from hvdprof.collect.devices.host_source import HostSource, ProcessSource

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


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_this_process_has_memory_and_used_a_core() -> None:
    source = ProcessSource()
    before = source.read()
    while os.times().user + os.times().system < before["cpu"] + 0.05:
        pass
    after = source.read()
    source.close()

    assert after["cpu"] >= before["cpu"] + 0.05
    assert 5e6 < after["rss"] < 1e11
    assert after["main_thread"] > before["main_thread"]
    assert 0 <= after["core_wait"] < 1


def test_memory_and_waits_are_those_of_the_kernel(tmp_path: Path) -> None:
    write(tmp_path / "self/statm", "900 250 30 1 0 99 0\n")
    schedule = write(tmp_path / "self/schedstat", "7000000000 2500000000 12\n")
    source = ProcessSource(tmp_path, [])
    first = source.read()
    schedule.write_text("7300000000 2600000000 15\n")

    assert first["rss"] == 250 * os.sysconf("SC_PAGE_SIZE")
    assert (first["main_thread"], first["core_wait"]) == (7, 0)
    # 0.3 s on a core, 0.1 s without one.
    assert source.read()["core_wait"] == pytest.approx(0.25)


def test_without_files_of_the_kernel_nothing_is_made_up(tmp_path: Path) -> None:
    assert ProcessSource(tmp_path, [tmp_path]).read().keys() == {
        *("cpu", "workers", "major_faults")
    }


@pytest.mark.parametrize("name", ["throttled_usec", "throttled_time"])
def test_the_share_of_throttled_periods_is_that_of_the_tightest_group(
    tmp_path: Path, name: str
) -> None:
    own = write(tmp_path / "own/cpu.stat", f"nr_periods 100\nnr_throttled 10\n{name} 5\n")
    outer = write(tmp_path / "outer/cpu.stat", f"nr_periods 50\nnr_throttled 0\n{name} 0\n")
    source = ProcessSource(tmp_path, [own.parent, outer.parent, tmp_path])
    first = source.read()
    own.write_text(f"nr_periods 200\nnr_throttled 50\n{name} 9\n")
    outer.write_text(f"nr_periods 60\nnr_throttled 1\n{name} 1\n")

    assert first["cgroup_throttled"] == 0
    assert source.read()["cgroup_throttled"] == pytest.approx(0.4)
    # No period has passed since.
    assert source.read()["cgroup_throttled"] == 0


def test_a_group_without_a_quota_throttles_nobody(tmp_path: Path) -> None:
    write(tmp_path / "own/cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\n")

    # It counts in comparison with ranks that have one.
    assert ProcessSource(tmp_path, [tmp_path / "own"]).read()["cgroup_throttled"] == 0


def test_workers_count_while_they_run_and_after_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    worker = types.SimpleNamespace(pid=77)
    children = [worker]
    module = types.SimpleNamespace(_children=children)
    monkeypatch.setitem(sys.modules, "multiprocessing.process", module)
    fields = " ".join(["0"] * 10 + [str(2 * ticks), str(ticks), "0", "0", "20"])
    source = ProcessSource(tmp_path, [])
    write(tmp_path / "77/stat", f"77 (a) worker) S {fields}\n")
    own_s = sum(os.times()[:2])
    values = source.read()
    with_worker = values["cpu"]
    children.clear()

    assert (values["workers"], source.read()["workers"]) == (1, 0)
    assert with_worker == pytest.approx(own_s + sum(os.times()[2:4]) + 3, abs=0.5)
    assert source.read()["cpu"] >= with_worker


def test_workers_are_awake_on_a_core_and_where_they_wait_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = [types.SimpleNamespace(pid=77), types.SimpleNamespace(pid=78)]
    module = types.SimpleNamespace(_children=children)
    monkeypatch.setitem(sys.modules, "multiprocessing.process", module)
    paths = [write(tmp_path / f"{pid}/schedstat", "5000000000 1000000000 9\n") for pid in (77, 78)]
    source = ProcessSource(tmp_path, [])
    before = source.read()["workers_awake"]
    paths[0].write_text("5200000000 1100000000 9\n")
    paths[1].write_text("5100000000 1000000000 9\n")
    after = source.read()["workers_awake"]
    children.clear()

    assert after - before == pytest.approx(0.4)
    # What has ended stays counted.
    assert source.read()["workers_awake"] == after
    source.close()
