"""A machine without faults, for tests that change one thing about it."""

from pathlib import Path
from typing import Any

from hvdprof.machine.doctor.survey import Survey
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.install.torch_install import TorchInstall
from hvdprof.machine.mpi import Mpi


def make_build(**changes: Any) -> HorovodBuild:
    """A CPU build with MPI and Gloo, with the given fields changed."""
    fields: dict[str, Any] = {
        "version": "0.28.1",
        "torch_version": "2.13.0+cpu",
        "torch": True,
        "tensorflow": False,
        "mpi": True,
        "gloo": True,
        "nccl": False,
        "cuda_available": False,
        "cuda_device_count": 0,
        "nccl_version": None,
    }
    return HorovodBuild(**{**fields, **changes})


def make_mpi(**changes: Any) -> Mpi:
    """An Open MPI 4 of the system, with the given fields changed."""
    fields: dict[str, Any] = {
        "flavour": "openmpi",
        "version": "4.1.8",
        "mpirun": "/usr/bin/mpirun",
        "library_dir": None,
        "horovodrun_works": True,
        "binding_args": "",
    }
    return Mpi(**{**fields, **changes})


def make_host(**changes: Any) -> dict[str, Any]:
    """A host of four cores and one network interface, as ``host_facts`` describes it."""
    return {
        "hostname": "node1",
        "boot_id": "b",
        "kernel": "6.1",
        "cpu_model": "CPU",
        "num_cores": 4,
        "memory_bytes": 16_000_000_000,
        "nics": [
            {"name": "lo", "mtu": 65536, "speed_mbit_per_s": None},
            {"name": "eth0", "mtu": 1500, "speed_mbit_per_s": 10_000},
        ],
        "gpus": [],
        **changes,
    }


def make_survey(**changes: Any) -> Survey:
    """A CPU machine on which everything works, with the given fields changed."""
    fields: dict[str, Any] = {
        "python": "/venv/bin/python",
        "python_version": "3.11.2",
        "externally_managed": False,
        "torch": TorchInstall("2.13.0+cpu", None, Path("/venv/torch")),
        "horovod": make_build(),
        "mpi": make_mpi(),
        "missing_tools": [],
        "host": make_host(),
        "cpu_count": 4,
        "hostname": "node1",
        "hostname_resolves": True,
        "load_average": 0.1,
        "free_disk_bytes": 50_000_000_000,
        "topology": None,
        "opal_prefix": None,
        "environment": {"OMP_NUM_THREADS": "1"},
        "launcher_variables": [],
    }
    return Survey(**{**fields, **changes})
