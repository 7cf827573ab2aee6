import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers import choose_launcher
from hvdprof.launch.launchers.batch_launch import BatchLaunch
from hvdprof.launch.launchers.choose_launcher import (
    HorovodrunGloo,
    HorovodrunMpi,
    MpichExec,
    OpenMpiRun,
    find_launcher,
)
from hvdprof.launch.launchers.slurm_allocation import SrunGloo, SrunMpi
from hvdprof.launch.plan.hosts import Host
from hvdprof.machine.mpi import Mpi

OPEN_MPI = Mpi("openmpi", "4.1.8", "/v/bin/mpirun", None, True, "")
OPEN_MPI_5 = replace(OPEN_MPI, version="5.0.11", binding_args="--bind-to none --map-by slot")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is in PATH, with a Slurm that has PMIx and a horovodrun."""
    for name, text in (("srun", "echo 'none pmix pmi2'"), ("horovodrun", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    for variable, value in (
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NODELIST", "n1"),
        ("SLURM_TASKS_PER_NODE", "2"),
    ):
        monkeypatch.setenv(variable, value)
    return tmp_path


def test_auto_is_mpirun_or_horovodrun(programs: Path) -> None:
    assert isinstance(find_launcher("mpi", OPEN_MPI), OpenMpiRun)
    assert isinstance(find_launcher("mpi", replace(OPEN_MPI, flavour="mpich")), MpichExec)
    assert find_launcher("gloo", None) == HorovodrunGloo(str(programs / "horovodrun"))
    with pytest.raises(EnvironmentNotReadyError, match="cannot start"):
        find_launcher("mpi", replace(OPEN_MPI, flavour="unknown"))


def test_every_other_launcher(programs: Path) -> None:
    assert isinstance(find_launcher("mpi", OPEN_MPI, "srun"), SrunMpi)
    gloo = find_launcher("gloo", None, "srun")
    assert isinstance(gloo, SrunGloo)
    assert [(host.name, host.slots) for host in gloo.allocation.hosts] == [("n1", 2)]
    found = find_launcher("mpi", OPEN_MPI_5, "horovodrun")
    assert isinstance(found, HorovodrunMpi)
    assert found.binding_args == "--bind-to none --map-by slot"
    assert found.path == f"/v/bin:{programs}"


def test_launchers_of_other_batch_systems_start_ranks_of_mpi_alone(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "jsrun").write_text("#!/bin/sh\n")
    (programs / "jsrun").chmod(0o755)
    monkeypatch.setenv("LSB_MCPU_HOSTS", "n1 2")
    found = find_launcher("mpi", None, "jsrun")
    assert found == BatchLaunch("jsrun", str(programs / "jsrun"), (Host("n1", 2),))
    with pytest.raises(UsageError, match="jsrun cannot start ranks of --controller gloo"):
        find_launcher("gloo", None, "jsrun")


def test_a_launcher_that_cannot_be_used_says_why(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="not known"):
        find_launcher("mpi", OPEN_MPI, "rsh")
    with pytest.raises(UsageError, match="--launcher mpirun cannot start"):
        find_launcher("gloo", None, "mpirun")
    with pytest.raises(EnvironmentNotReadyError, match="does not recognise"):
        find_launcher("mpi", replace(OPEN_MPI, horovodrun_works=False), "horovodrun")
    (programs / "srun").write_text("#!/bin/sh\necho 'none pmi2'\n")
    with pytest.raises(EnvironmentNotReadyError, match="no PMIx") as raised:
        find_launcher("mpi", OPEN_MPI, "srun")
    assert "gloo" in raised.value.hint
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(EnvironmentNotReadyError, match="not inside a Slurm allocation") as raised:
        find_launcher("gloo", None, "srun")
    assert "--sbatch" in raised.value.hint
    for name in ("srun", "horovodrun"):
        (programs / name).unlink()
        with pytest.raises(EnvironmentNotReadyError, match=f"no {name}"):
            find_launcher("gloo", None, name)


@pytest.mark.parametrize("name", ["mpirun", "horovodrun"])
def test_ranks_of_another_mpi_are_not_started_alone(programs: Path, name: str) -> None:
    library = "MPICH Version: 4.3.2"
    with pytest.raises(EnvironmentNotReadyError, match="loads MPICH Version: 4") as raised:
        find_launcher("mpi", OPEN_MPI, name, mpi_library=library)
    assert "install-horovod" in raised.value.hint
    find_launcher("gloo", OPEN_MPI, "horovodrun", mpi_library=library)
    find_launcher("mpi", OPEN_MPI, "srun", mpi_library=library)


def test_horovodrun_beside_the_interpreter_comes_first(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "venv"
    beside.mkdir()
    (beside / "horovodrun").write_text("#!/bin/sh\n")
    (beside / "horovodrun").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(beside / "python"))
    assert find_launcher("gloo", None) == HorovodrunGloo(str(beside / "horovodrun"))


def test_a_slurm_that_does_not_answer_is_no_traceback(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("srun", 60)

    monkeypatch.setattr(choose_launcher, "find_srun", lambda: "srun")
    monkeypatch.setattr("hvdprof.launch.launchers.slurm_allocation.subprocess.run", hangs)
    with pytest.raises(EnvironmentNotReadyError, match="does not answer"):
        find_launcher("mpi", OPEN_MPI, "srun")
