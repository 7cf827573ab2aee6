"""The doctor's lines about GPUs, network, cores, load and disk."""

from hvdprof import units
from hvdprof.machine.doctor.check_result import Finding, Line
from hvdprof.machine.doctor.survey import Survey
from hvdprof.machine.install.build_tools import APT_INSTALL
from hvdprof.machine.install.horovod_features import HorovodBuild

_SMALLEST_FREE_BYTES = 1_000_000_000
# From half of the cores busy with other things, two ranks no longer find a core each.
_LARGEST_LOAD_PER_CORE = 0.5
_SLOW_LINKS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def check_gpus(survey: Survey) -> Finding:
    """The NVIDIA GPUs of this host, and whether torch sees them."""
    line, gpus, build = Line("gpus", "GPUs"), survey.host["gpus"], survey.horovod
    if not gpus:
        return line.missing("no NVIDIA GPU here: ranks run on the CPU")
    names = sorted({str(gpu["name"]) for gpu in gpus})
    detail = f"{len(gpus)} x {', '.join(names)}, driver {gpus[0]['driver']}"
    if not isinstance(build, HorovodBuild) or build.cuda_device_count >= len(gpus):
        return line.found(detail)
    seen = f"{detail}; torch sees {build.cuda_device_count} of them"
    visible = survey.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return line.risk(f"{seen} (CUDA_VISIBLE_DEVICES={visible})", "unset CUDA_VISIBLE_DEVICES")
    return line.risk(
        f"{seen} (the driver is too old for its CUDA, or torch has none)",
        'python -c "import torch; torch.cuda.init()" shows why',
    )


def check_topology(survey: Survey) -> Finding:
    """The kinds of links between the GPUs; the whole table is in ``--json``."""
    line = Line("topology", "GPU topology")
    if survey.topology is None:
        return line.missing("nvidia-smi topo -m prints nothing here")
    # The legend below the table names every kind of link, present or not.
    cells = set(survey.topology.split("Legend:", 1)[0].split())
    nvlinks = sorted(cell for cell in cells if cell.startswith("NV") and cell[2:].isdigit())
    others = [link for link in _SLOW_LINKS if link in cells]
    return line.found(f"links: {', '.join([*nvlinks, *others])}" if nvlinks or others else "1 GPU")


def check_nics(survey: Survey) -> Finding:
    """The network interfaces that are up; ranks of several hosts need one besides loopback."""
    line = Line("nics", "Network interfaces")
    nics = [nic for nic in survey.host["nics"] if nic["name"] != "lo"]
    if not nics:
        return line.missing("loopback only: ranks of this host alone")
    speeds = [nic["speed_mbit_per_s"] for nic in nics]
    titles = [f" ({units.count(speed)} Mbit/s)" if speed else "" for speed in speeds]
    named = (nic["name"] + title for nic, title in zip(nics, titles, strict=True))
    return line.found(", ".join(named))


def check_hostname(survey: Survey) -> Finding:
    """Whether the machine can look up its own name, without which Gloo crashes."""
    line, build = Line("hostname", "Own host name"), survey.horovod
    if survey.hostname_resolves:
        return line.found(survey.hostname)
    mpi_runs = isinstance(build, HorovodBuild) and build.mpi and survey.mpi is not None
    return line.risk(
        f"{survey.hostname} does not resolve: Gloo ends with a segmentation fault",
        'echo "127.0.0.1 $(hostname)" >> /etc/hosts',
        stops_bench=not mpi_runs,
    )


def check_cores(survey: Survey) -> Finding:
    """The cores that a job may use here; more ranks than these compete for them."""
    line, usable, present = Line("cores", "Cores"), survey.host["num_cores"], survey.cpu_count
    per_rank = ", ".join(
        f"{usable // size} at np {size}" for size in (1, 2, 4, 8) if size <= usable
    )
    detail = f"{usable} usable of {present}; cores per rank: {per_rank}"
    if usable < present:
        return line.risk(
            f"{detail}; the control group withholds the rest, but torch starts threads for all",
            f"export OMP_NUM_THREADS={usable}",
        )
    return line.found(detail)


def check_load(survey: Survey) -> Finding:
    """The load of other processes; a busy machine makes scaling look worse than it is."""
    line, load = Line("load", "Load"), survey.load_average
    if load is None:
        return line.missing("unknown on this system")
    detail = f"{units.rate(load)} over the last minute on {survey.cpu_count} cores"
    if load > _LARGEST_LOAD_PER_CORE * survey.cpu_count:
        return line.risk(
            f"{detail}: measurements will be disturbed",
            "top; wait, or end the other processes",
            disturbs_bench=f"load {units.rate(load)} on {survey.cpu_count} cores",
        )
    return line.found(detail)


def check_build_tools(survey: Survey) -> Finding:
    """Whether Horovod could be built here."""
    line = Line("build_tools", "Build tools")
    if not survey.missing_tools:
        return line.found("C++ compiler, make, Python's headers")
    names = ", ".join(tool.name for tool in survey.missing_tools)
    packages = [tool.debian_package for tool in survey.missing_tools]
    return line.missing(
        f"{names}; needed only to build Horovod", " ".join([*APT_INSTALL, *packages])
    )


def check_disk(survey: Survey) -> Finding:
    """Space for run directories in the current folder."""
    line, free = Line("disk", "Disk"), survey.free_disk_bytes
    if free is None:
        return line.missing("unknown on this system")
    detail = f"{units.byte_size(free)} free in the current folder"
    if free < _SMALLEST_FREE_BYTES:
        fix = "hvdprof bench --output DIR, on a larger disk"
        return line.risk(f"{detail}: a run with timelines can fill it", fix)
    return line.found(detail)
