"""Which rank this process is, and facts about its host; standard library only."""

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hvdprof.rundir.recording.sample_format import Gpu, HostFacts, NetworkInterface

# What the launcher gave this process; a script may pin itself afterwards.
_GIVEN_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_V1 = _CGROUP_ROOT / "cpu"

_FAMILIES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        *("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
        *("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
    ),
    ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


def host_facts() -> HostFacts:
    """Name, system, processor, memory, network interfaces and GPUs of this host.

    ``num_cores`` are the cores that the job may use on this host, however its ranks are pinned;
    ``num_machine_cores`` are all cores of the machine, so more than ``num_cores`` in a container.
    What is unknown is ``None`` or an empty list.
    """
    return {
        "hostname": socket.gethostname(),
        "boot_id": boot_id(),
        "kernel": platform.release(),
        "cpu_model": _cpu_model(),
        "num_cores": host_cores(),
        "num_machine_cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "nics": network_interfaces(),
        "gpus": gpus(),
    }


def boot_id() -> str | None:
    """The kernel's id of this boot: processes that share it share the monotonic clock."""
    return _first_line(Path("/proc/sys/kernel/random/boot_id"))


def pid_namespace() -> str:
    """The namespace of process ids, unique within a boot; empty where the system has none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def given_cores() -> list[int]:
    """The cores that this process had when it imported this module, before it pinned itself."""
    return sorted(_GIVEN_CORES)


def usable_cores() -> int:
    """Cores that this process may use: its affinity, bounded by the quota of its cgroup."""
    if hasattr(os, "sched_getaffinity"):
        return _within_quota(len(os.sched_getaffinity(0)))
    return host_cores()


def host_cores() -> int:
    """Cores that the job may use on this host: its cgroup's set and quota, not its affinity.

    A rank that is pinned to one core sees one core in its affinity; the host still has more.
    """
    listed = (_first_line(group / "cpuset.cpus.effective") for group in cgroups())
    cores = next((len(listed_cores(line)) for line in listed if line), os.cpu_count() or 1)
    return _within_quota(cores)


def listed_cores(text: str) -> set[int]:
    """The cores of a list of the kernel: ``0-3,8``."""
    ranges = [part.split("-") for part in text.split(",") if part]
    return {core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)}


def cgroups() -> list[Path]:
    """The control groups of this process, the innermost first, then those of version 1 for cores.

    In a container, the groups of its host may be listed and not be there.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    groups: list[Path] = []
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if number == "0" or "cpu" in controllers.split(","):
            root = _CGROUP_ROOT if number == "0" else _CGROUP_V1
            innermost = root / path.lstrip("/")
            parents = (group for group in innermost.parents if group.is_relative_to(root))
            groups += [innermost, *parents]
    return sorted(groups, key=lambda group: group.is_relative_to(_CGROUP_V1))


def network_interfaces() -> list[NetworkInterface]:
    """The network interfaces that are up: name, MTU, and link speed where the driver knows it."""
    interfaces: list[NetworkInterface] = []
    for folder in sorted(Path("/sys/class/net").glob("*")):
        if _first_line(folder / "operstate") not in ("up", "unknown"):
            continue
        speed = _first_line(folder / "speed")
        interfaces.append(
            {
                "name": folder.name,
                "mtu": int(_first_line(folder / "mtu") or 0),
                "speed_mbit_per_s": int(speed) if speed and int(speed) > 0 else None,
            }
        )
    return interfaces


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that ``nvidia-smi`` lists; empty without the tool or without a GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = "index,name,memory.total,driver_version"
    try:
        answer = subprocess.run(
            [tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines()]
    return [
        {"index": int(row[0]), "name": row[1], "memory_mib": _whole(row[2]), "driver": row[3]}
        for row in rows
        if len(row) == 4
    ]


def _within_quota(cores: int) -> int:
    quota = _cgroup_quota_cores()
    return cores if quota is None else max(1, min(cores, int(quota)))


def _cgroup_quota_cores() -> float | None:
    limits = (_first_line(group / "cpu.max") for group in cgroups())
    quotas = [line.split() for line in limits if line and not line.startswith("max")]
    old_style = [
        _number_in(_CGROUP_V1 / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    ]
    if old_style[0] > 0 and old_style[1] > 0:
        quotas.append([str(number) for number in old_style])
    return min((int(quota) / int(period) for quota, period in quotas), default=None)


def _number_in(path: Path) -> int:
    text = _first_line(path) or ""
    return int(text) if text.isdecimal() else 0


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or None)


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except OSError:
        return None


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Identity:
    """Rank, size, local_rank and local_size as ``hvd.*`` returns them."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def loaded_horovod() -> ModuleType | None:
    """The module ``horovod.torch``, else ``horovod.tensorflow``, that the script initialised.

    None where it has imported and initialised neither.
    """
    loaded = (sys.modules.get(name) for name in ("horovod.torch", "horovod.tensorflow"))
    # A module that is being imported has no functions yet.
    return next((hvd for hvd in loaded if getattr(hvd, "is_initialized", bool)()), None)


def identity_from_horovod() -> Identity | None:
    """The identity that Horovod has; None before ``hvd.init()`` or without Horovod."""
    hvd = loaded_horovod()
    if hvd is None:
        return None
    return Identity(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())


def loaded_torch_distributed() -> ModuleType | None:
    """The module ``torch.distributed`` where the script has made its process group, else None."""
    module = sys.modules.get("torch.distributed")
    # A module that is being imported has no functions yet.
    is_ready = getattr(module, "is_available", bool)() and getattr(module, "is_initialized", bool)()
    return module if is_ready else None


def identity_from_distributed(environment: Mapping[str, str] = os.environ) -> Identity | None:
    """The identity that ``torch.distributed`` has; None before ``init_process_group()``.

    Local rank and size are those of the launcher where it has set the same rank and size. Else each
    host counts as one rank.
    """
    distributed = loaded_torch_distributed()
    if distributed is None:
        return None
    own = Identity(distributed.get_rank(), distributed.get_world_size(), 0, 1)
    started = identity_from_environment(environment)
    is_same = started is not None and (started.rank, started.size) == (own.rank, own.size)
    return started if is_same else own


def identity_from_environment(environment: Mapping[str, str] = os.environ) -> Identity | None:
    """The identity that the launcher set; None where no known launcher set rank and size.

    Known are the variables of horovodrun, Open MPI, jsrun, PALS, MPICH (PMI), torchrun and Slurm,
    read in that order. Without local rank and size, each host counts as one rank.
    """
    for rank, size, local_rank, local_size in _FAMILIES:
        if _is_number(environment.get(rank)) and _is_number(environment.get(size)):
            return Identity(
                int(environment[rank]),
                int(environment[size]),
                _number_or(environment.get(local_rank), 0),
                _number_or(environment.get(local_size), 1),
            )
    return None


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdecimal()


def _number_or(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default
