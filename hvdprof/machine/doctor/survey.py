"""Everything that the doctor checks, looked up once."""

import os
import platform
import shutil
import socket
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.collect.host_facts import host_facts
from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.build_tools import MissingTool, missing_tools
from hvdprof.machine.install.gpu_toolkit import gpu_topology
from hvdprof.machine.install.horovod_features import HorovodBuild, HorovodProblem, ask_horovod
from hvdprof.machine.install.torch_install import TorchInstall, find_torch
from hvdprof.machine.load import load_average
from hvdprof.machine.mpi import Mpi, find_mpi
from hvdprof.rundir.masking import recorded_environment
from hvdprof.rundir.recording.sample_format import HostFacts

_LAUNCHER_VARIABLES = (
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found on this machine, not yet judged.

    ``host`` is as ``hvdprof.collect.host_facts`` describes it; ``cpu_count`` counts all cores of
    the machine, ``host["num_cores"]`` those that a job may use; ``environment`` holds the recorded
    variables, secrets masked; ``launcher_variables`` names those that only a rank of a job has;
    ``topology`` is the whole text of ``nvidia-smi topo -m``.
    """

    python: str
    python_version: str
    externally_managed: bool
    torch: TorchInstall | None
    horovod: HorovodBuild | HorovodProblem | None
    mpi: Mpi | None
    missing_tools: list[MissingTool]
    host: HostFacts
    cpu_count: int
    hostname: str
    hostname_resolves: bool
    load_average: float | None
    free_disk_bytes: int | None
    topology: str | None
    opal_prefix: str | None
    environment: dict[str, str] = field(default_factory=dict)
    launcher_variables: list[str] = field(default_factory=list)


def take_survey(folder: Path | None = None) -> Survey:
    """Look at the machine; a few seconds, most of them Horovod's import in a child process.

    Args:
        folder: Where runs would be written; the current folder by default.
    """
    return Survey(
        python=sys.executable,
        python_version=platform.python_version(),
        externally_managed=_is_externally_managed(),
        torch=find_torch(),
        horovod=ask_horovod(sys.executable),
        mpi=find_mpi(),
        missing_tools=missing_tools(),
        host=host_facts(),
        cpu_count=os.cpu_count() or 1,
        hostname=socket.gethostname(),
        hostname_resolves=hostname_resolves(),
        load_average=load_average(),
        free_disk_bytes=_free_bytes(folder or Path()),
        topology=gpu_topology(),
        opal_prefix=os.environ.get("OPAL_PREFIX"),
        environment=recorded_environment(os.environ),
        launcher_variables=[name for name in _LAUNCHER_VARIABLES if name in os.environ],
    )


def _is_externally_managed() -> bool:
    # PEP 668: the marker lies in the standard library's folder; virtual environments ignore it.
    marker = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    return sys.prefix == sys.base_prefix and marker.is_file()


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
