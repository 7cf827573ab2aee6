from typing import Any

import pytest

from hvdprof.machine.doctor import check_hardware as checks
from hvdprof.machine.doctor.check_result import State
from hvdprof.machine.install.build_tools import MissingTool
from tests.builders.survey import make_build, make_host, make_survey

GPUS = [{"index": i, "name": "H100", "memory_mib": 81559, "driver": "580.1"} for i in range(2)]
TOPOLOGY = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m
GPU0\t X \tNV18\tPXB\t0-31
GPU1\tNV18\t X \tSYS\t32-63
NIC0\tPXB\tSYS\t X

Legend:
  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect within a NUMA node
"""
ONE_GPU = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-31\n\nLegend:\n  SYS = far\n  NV# = NVLink\n"


@pytest.mark.parametrize(
    ("check", "changes", "state", "word", "fix", "stops"),
    [
        (checks.check_gpus, {}, State.MISSING, "on the CPU", "", False),
        (
            checks.check_gpus,
            {"host": make_host(gpus=GPUS), "horovod": make_build(cuda_device_count=2)},
            State.FOUND,
            "2 x H100, driver 580.1",
            "",
            False,
        ),
        (checks.check_gpus, {"host": make_host(gpus=GPUS)}, State.RISK, "sees 0", "why", False),
        (
            checks.check_gpus,
            {
                "host": make_host(gpus=GPUS),
                "horovod": make_build(cuda_device_count=1),
                "environment": {"CUDA_VISIBLE_DEVICES": "0"},
            },
            State.RISK,
            "sees 1 of them (CUDA_VISIBLE_DEVICES=0)",
            "unset CUDA_VISIBLE_DEVICES",
            False,
        ),
        (checks.check_topology, {}, State.MISSING, "nvidia-smi", "", False),
        (checks.check_topology, {"topology": ONE_GPU}, State.FOUND, "1 GPU", "", False),
        (checks.check_nics, {}, State.FOUND, "eth0 (10,000 Mbit/s)", "", False),
        (checks.check_nics, {"host": make_host(nics=[])}, State.MISSING, "loopback", "", False),
        (checks.check_hostname, {}, State.FOUND, "node1", "", False),
        (
            checks.check_hostname,
            {"hostname_resolves": False},
            State.RISK,
            "segmentation fault",
            'echo "127.0.0.1 $(hostname)" >> /etc/hosts',
            False,
        ),
        (
            checks.check_hostname,
            {"hostname_resolves": False, "horovod": make_build(mpi=False)},
            State.RISK,
            "does not resolve",
            "/etc/hosts",
            True,
        ),
        (checks.check_cores, {}, State.FOUND, "4 at np 1, 2 at np 2, 1 at np 4", "", False),
        (
            checks.check_cores,
            {"host": make_host(num_cores=2)},
            State.RISK,
            "2 usable of 4",
            "OMP_NUM_THREADS=2",
            False,
        ),
        (checks.check_load, {}, State.FOUND, "0.100 over the last minute", "", False),
        (checks.check_load, {"load_average": 2.1}, State.RISK, "disturbed", "top", False),
        (checks.check_load, {"load_average": None}, State.MISSING, "unknown", "", False),
        (checks.check_build_tools, {}, State.FOUND, "compiler", "", False),
        (
            checks.check_build_tools,
            {"missing_tools": [MissingTool("C++ compiler", "g++"), MissingTool("make", "make")]},
            State.MISSING,
            "C++ compiler, make; needed only to build",
            "apt-get install -y --no-install-recommends g++ make",
            False,
        ),
        (checks.check_disk, {}, State.FOUND, "50.0 GB free", "", False),
        (checks.check_disk, {"free_disk_bytes": 10_000}, State.RISK, "fill", "--output", False),
        (checks.check_disk, {"free_disk_bytes": None}, State.MISSING, "unknown", "", False),
    ],
)
def test_finding(
    check: Any, changes: dict[str, Any], state: State, word: str, fix: str, stops: bool
) -> None:
    finding = check(make_survey(**changes))
    assert (finding.state, finding.stops_bench) == (state, stops)
    assert word in finding.detail
    assert (fix in finding.fix) if fix else (finding.fix == "")


def test_the_legend_is_not_taken_for_links() -> None:
    finding = checks.check_topology(make_survey(topology=TOPOLOGY))
    assert finding.detail == "links: NV18, PXB, SYS"
