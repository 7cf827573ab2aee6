"""What is known of the host of a rank, and what is sampled of its process, host and GPU.

The files are ``samples-<rank>.jsonl``, one per rank, of whole windows of about ten seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from hvdprof.rundir.recording.line_format import Key

SAMPLES_HZ = "HVDPROF_SAMPLES"
"""Environment variable of the ranks: samples of the machine per second, 0 for none."""

FLOPS = "HVDPROF_FLOPS"
"""Environment variable of the ranks: 1 where FLOPs of a warm-up step are counted."""

USUAL_HZ, MOST_HZ = 1.0, 10.0

LEAST_GROWTH_BYTES, LEAST_GROWTH_SHARE = 20e6, 0.02
"""Growth of memory that is said: by both, in bytes and as a share of the memory before."""

GROWTH_PARTS = 6
"""Equal parts of a while, whose differences are the growth and its interval."""

RANK, HOST, DEVICE = "rank", "host", "device"
"""What is sampled: the process of a rank, its host, the GPU that it computes on."""

MAIN_THREAD, CORE_WAIT, THROTTLED = "main_thread", "core_wait", "cgroup_throttled"
RSS, CPU, WORKERS = "rss", "cpu", "workers"
WORKERS_AWAKE = "workers_awake"
MAJOR_FAULTS = "major_faults"
BATCHES, DATA_WAIT, FIRST_WAIT = "batches", "batch_wait", "first_batch_wait"
READY, EMPTY, UNPINNED = "batches_ready", "queue_empty", "batches_unpinned"
EMPTY_WAIT = "empty_queue_wait"
LONGEST_WAIT, LOADER_WORKERS, PREFETCH = "longest_batch_wait", "num_workers", "prefetch_factor"
COPIED, PAGEABLE, COPY_GPU, COPY_HOST = "copied", "copied_pageable", "copy_gpu", "copy_host"
COPIES = (COPIED, PAGEABLE, COPY_GPU, COPY_HOST)
TORCH_ALLOCATED, TORCH_RESERVED = "torch_allocated", "torch_reserved"
TORCH_PEAK, TORCH_RETRIES = "torch_peak", "torch_retries"
SWAP_IN, SWAP_OUT, AVAILABLE = "swap_in", "swap_out", "memory_available"
BUSY, STEAL = "busy", "steal"
SM_CLOCK, UTILISATION = "sm_clock", "utilisation"
XID, REMOTE = "xid", "remote_cores"
ENERGY = "energy"
OTHER = "other"
PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", OTHER)
FLOP = {name: f"flop_{name}" for name in PRECISIONS}
"""The measures of FLOPs per step, by the precision of the operations."""

FLOP_RATE, MFU = "flop_rate", "mfu"
LIMITS = (
    *("limited_idle", "limited_setting", "limited_power", "limited_slowdown", "limited_sync"),
    *("limited_heat", "limited_hw_heat", "limited_power_brake", "limited_display"),
)
"""What limits the clock of a GPU: NVML's throttle reasons, from bit 0 on."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a sample holds.

    Attributes:
        scope: ``rank``, ``host`` or ``device``.
        unit: Its unit, after division by the time for a count; empty for a share, 0 to 1.
        doc: What it is.
        is_count: Whether it only grows, so that samples are its growth per second.
        title: As it stands in a sentence; empty where it is in no sentence.
    """

    scope: str
    unit: str
    doc: str
    is_count: bool = False
    title: str = ""


MEASURES: dict[str, Measure] = {
    CPU: Measure(RANK, "cores", "cores used by the rank and its workers", True, "cores used"),
    MAIN_THREAD: Measure(RANK, "cores", "core time of the main thread", is_count=True),
    CORE_WAIT: Measure(
        RANK,
        "",
        "share of the time in which the main thread could run that it had no core",
        title="no core",
    ),
    THROTTLED: Measure(
        RANK,
        "",
        "share of the periods in which its cgroup had used up its quota (cpu.max)",
        title="throttled by its cgroup",
    ),
    WORKERS: Measure(RANK, "processes", "processes started by multiprocessing, such as workers"),
    WORKERS_AWAKE: Measure(
        RANK, "cores", "core time of the workers' main threads, with their waits for a core", True
    ),
    BATCHES: Measure(RANK, "1/s", "batches taken from torch's data loaders", True),
    DATA_WAIT: Measure(RANK, "", "time in `next` of a data loader", True),
    FIRST_WAIT: Measure(RANK, "", "of it for the first batch of an iterator", True),
    EMPTY_WAIT: Measure(RANK, "", "of it where the next batch was not ready", True),
    LONGEST_WAIT: Measure(RANK, "s", "longest `next` but for the first batch of an iterator"),
    READY: Measure(RANK, "batches", "batches ready at `next`, where workers load them"),
    EMPTY: Measure(
        RANK, "", "share of the `next` at which the next one was not: batches come in order"
    ),
    UNPINNED: Measure(RANK, "batches", "batches of workers that wait for the thread that pins"),
    COPIED: Measure(RANK, "bytes/s", "batches that came on the host and entered on the GPU", True),
    PAGEABLE: Measure(RANK, "bytes/s", "of them from pageable memory", True),
    COPY_GPU: Measure(RANK, "", "from such a batch to its forward pass, on the GPU's stream", True),
    COPY_HOST: Measure(RANK, "", "the same by the host's clock", True),
    LOADER_WORKERS: Measure(RANK, "processes", "`num_workers` of the data loader"),
    PREFETCH: Measure(RANK, "batches", "`prefetch_factor` of the data loader: batches per worker"),
    MAJOR_FAULTS: Measure(RANK, "1/s", "pages read from disk (major faults)", True),
    RSS: Measure(RANK, "bytes", "memory of the process (resident set size)", title="rss"),
    TORCH_ALLOCATED: Measure(
        RANK, "bytes", "GPU memory in tensors (memory_allocated)", title="torch allocated"
    ),
    TORCH_RESERVED: Measure(
        RANK, "bytes", "GPU memory that torch holds (memory_reserved)", title="torch reserved"
    ),
    TORCH_PEAK: Measure(RANK, "bytes", "most GPU memory in tensors so far", title="torch peak"),
    TORCH_RETRIES: Measure(
        RANK,
        "1/s",
        "cudaMalloc failed, torch freed its cache and tried again",
        True,
        "allocation retries",
    ),
    BUSY: Measure(HOST, "cores", "busy cores, of those given to the rank", True, "busy cores"),
    STEAL: Measure(HOST, "cores", "cores that the hypervisor gave to others", True, "steal"),
    "psi_cpu": Measure(HOST, "", "some task waited for a core (PSI)", True, "CPU pressure"),
    "psi_memory": Measure(HOST, "", "some task waited for memory (PSI)", True, "memory pressure"),
    "psi_io": Measure(HOST, "", "some task waited for storage (PSI)", True, "I/O pressure"),
    "core_clock": Measure(HOST, "Hz", "mean clock of the given cores", title="core clock"),
    AVAILABLE: Measure(HOST, "bytes", "memory available (MemAvailable)", title="memory available"),
    SWAP_IN: Measure(HOST, "bytes/s", "read from swap", True, "read from swap"),
    SWAP_OUT: Measure(HOST, "bytes/s", "written to swap", True, "written to swap"),
    "disk_read": Measure(HOST, "bytes/s", "read from disks", True, "read from disks"),
    "disk_write": Measure(HOST, "bytes/s", "written to disks", True, "written to disks"),
    "net_in": Measure(HOST, "bytes/s", "received, loopback apart", True, "received"),
    "net_out": Measure(HOST, "bytes/s", "sent, loopback apart", True, "sent"),
    SM_CLOCK: Measure(DEVICE, "Hz", "clock of the SMs", title="SM clock"),
    "memory_clock": Measure(DEVICE, "Hz", "clock of the memory", title="memory clock"),
    UTILISATION: Measure(DEVICE, "", "time with a kernel running", title="GPU utilisation"),
    "power": Measure(DEVICE, "W", "power drawn", title="power"),
    ENERGY: Measure(DEVICE, "W", "energy counter of the GPU: mean power", True, "mean power"),
    "power_limit": Measure(DEVICE, "W", "enforced power limit", title="power limit"),
    "temperature": Measure(DEVICE, "°C", "temperature of the GPU", title="temperature"),
    "pcie_generation": Measure(DEVICE, "generation", "current PCIe generation", title="PCIe gen"),
    "pcie_width": Measure(DEVICE, "lanes", "current PCIe width", title="PCIe width"),
    "memory_used": Measure(DEVICE, "bytes", "memory in use, all processes", title="memory used"),
    "ecc_corrected": Measure(DEVICE, "1/s", "corrected ECC errors", True),
    "ecc_uncorrected": Measure(DEVICE, "1/s", "uncorrected ECC errors", True, "ECC errors"),
    XID: Measure(DEVICE, "number", "number of the last XID error; 0 without one", title="XID"),
    REMOTE: Measure(
        DEVICE,
        "",
        "1 where the rank has no core on the NUMA node of its GPU",
        title="cores on another NUMA node than its GPU",
    ),
    **{FLOP[name]: Measure(DEVICE, "FLOP", f"FLOPs of one step in {name}") for name in PRECISIONS},
    FLOP_RATE: Measure(DEVICE, "FLOP/s", "FLOPs per step divided by the mean step time"),
    MFU: Measure(DEVICE, "", "share of the dense peak of the GPU in these precisions (MFU)"),
    "limited_idle": Measure(DEVICE, "", "clock lowered: nothing runs"),
    "limited_setting": Measure(
        DEVICE, "", "clock limited by applications clocks", title="clock limited by a setting"
    ),
    "limited_power": Measure(
        DEVICE, "", "clock limited by the software power cap", title="clock limited by power"
    ),
    "limited_slowdown": Measure(
        DEVICE,
        "",
        "clock halved or less by hardware: heat, power, PSU",
        title="clock cut by hardware",
    ),
    "limited_sync": Measure(DEVICE, "", "clock of the sync boost group", title="sync boost"),
    "limited_heat": Measure(
        DEVICE, "", "clock limited by software thermal slowdown", title="clock limited by heat"
    ),
    "limited_hw_heat": Measure(
        DEVICE, "", "clock cut by hardware thermal slowdown", title="clock cut by heat"
    ),
    "limited_power_brake": Measure(
        DEVICE, "", "clock cut by the external power brake", title="clock cut by the power brake"
    ),
    "limited_display": Measure(
        DEVICE, "", "clock limited by the display", title="clock limited by the display"
    ),
}
"""By name; a sample of a count is its growth per second since the sample before."""

Summary = tuple[str, int, float, float, float, float]
"""Name, number of samples, mean, least, median, most; units as in ``MEASURES``."""


class SamplesLine(TypedDict):
    """Samples of a while, summed up; only in files of samples of the machine."""

    kind: Literal["samples"]
    scope: Annotated[str, Key("`rank`, `host` or `device`")]
    device: Annotated[str, Key("name of the GPU; empty for others")]
    start_ns: Annotated[int, Key("begin", "ns")]
    end_ns: Annotated[int, Key("end", "ns")]
    measures: Annotated[
        Sequence[Summary], Key("[measure, samples, mean, least, median, most], each in its unit")
    ]


class NetworkInterface(TypedDict):
    """A network interface that is up."""

    name: str
    mtu: int
    speed_mbit_per_s: int | None


class Gpu(TypedDict):
    """A GPU as ``nvidia-smi`` lists it."""

    index: int
    name: str
    memory_mib: int | None
    driver: str


class HostFacts(TypedDict):
    """A host; what is unknown is None or an empty list.

    ``num_cores`` are the cores that the job may use, ``num_machine_cores`` those of the machine.
    """

    hostname: str
    boot_id: str | None
    kernel: str
    cpu_model: str | None
    num_cores: int
    num_machine_cores: int | None
    memory_bytes: int | None
    nics: list[NetworkInterface]
    gpus: list[Gpu]
