import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.launchers.batch_launch import (
    BatchLaunch,
    TensorFlowForItsEngines,
    TensorFlowWorkers,
    Torchrun,
    find_batch_launch,
    hosts_of_job,
)
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.hosts import Host

NODES = (Host("n1", 4), Host("n2", 4))

JOB = Job(
    size=2,
    program=("python", "train.py", "--np=7"),
    hosts=None,
    environment={},
    passed_on=(),
    device="cpu",
    engine="tf-multiworker",
)


def command(name: str, size: int, *, hosts: tuple[Host, ...] = NODES, device: str = "cpu") -> str:
    job = Job(
        size=size,
        program=("python", "a.py"),
        hosts=None,
        environment={"OMP_NUM_THREADS": "7"},
        passed_on=(),
        device=device,
    )
    return " ".join(BatchLaunch(name, f"/bin/{name}", hosts).command(job))


def test_jsrun_has_a_resource_set_per_rank() -> None:
    shared = "/bin/jsrun --nrs 6 --tasks_per_rs 1 --cpu_per_rs 7"
    assert command("jsrun", 6) == f"{shared} --bind rs python a.py"
    assert command("jsrun", 6, device="cuda") == f"{shared} --gpu_per_rs 1 --bind rs python a.py"


@pytest.mark.parametrize(("size", "each"), [(2, 2), (4, 4), (6, 4), (12, 6)])
def test_a_node_gets_as_many_ranks_as_it_has_slots(size: int, each: int) -> None:
    assert command("aprun", size) == f"/bin/aprun -n {size} -N {each} -d 7 python a.py"
    assert command("pals", size) == (
        f"/bin/pals -n {size} --ppn {each} --depth 7 --cpu-bind depth --label python a.py"
    )


def test_a_file_with_one_line_per_node_does_not_bound_its_ranks() -> None:
    alone = (Host("n1", 1), Host("n2", 1))
    assert " --ppn 4 " in command("pals", 8, hosts=alone)
    assert " --ppn 1 " in command("pals", 2, hosts=alone)


def test_a_rank_without_a_number_of_threads_gets_one_processor() -> None:
    job = Job(size=1, program=(), hosts=None, environment={}, passed_on=(), device="cpu")
    assert "-d 1" in " ".join(BatchLaunch("aprun", "aprun", NODES).command(job))


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1 4 n2 4", NODES),
        # Of Summit: the node that starts the job comes first and has no ranks.
        ("batch5 1 n1 4 n2 4", NODES),
        # A job on such a node alone.
        ("login1 2", (Host("login1", 2),)),
    ],
)
def test_hosts_of_lsf(text: str, nodes: tuple[Host, ...]) -> None:
    assert hosts_of_job("jsrun", {"LSB_MCPU_HOSTS": text}) == nodes


@pytest.mark.parametrize("named", [{}, {"LSB_MCPU_HOSTS": "n1"}, {"LSB_MCPU_HOSTS": "n1 n2"}])
def test_a_file_of_lsf_names_the_hosts_where_its_variable_does_not(
    tmp_path: Path, named: dict[str, str]
) -> None:
    (tmp_path / "hosts").write_text("batch5\n" + "n1\n" * 4 + "n2\n" * 4)
    environment = {**named, "LSB_DJOB_HOSTFILE": str(tmp_path / "hosts")}
    assert hosts_of_job("jsrun", environment) == NODES


@pytest.mark.parametrize("name", ["aprun", "pals"])
def test_hosts_of_pbs(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts").write_text("n1\n" * 4 + "n2\n" * 4)
    assert hosts_of_job(name, {"PBS_NODEFILE": str(tmp_path / "hosts")}) == NODES


@pytest.mark.parametrize(
    ("name", "batch", "environment"),
    [
        ("jsrun", "LSF", {"PBS_NODEFILE": "/nowhere"}),
        ("pals", "PBS", {"LSB_MCPU_HOSTS": "n1 4"}),
        ("aprun", "PBS", {"PBS_NODEFILE": "/nowhere"}),
    ],
)
def test_outside_of_a_job_it_is_said(name: str, batch: str, environment: dict[str, str]) -> None:
    with pytest.raises(EnvironmentNotReadyError, match=f"not inside a job of {batch}"):
        hosts_of_job(name, environment)


def test_the_program_is_looked_up_inside_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "hosts"))
    (tmp_path / "hosts").write_text("n1\n" * 4)
    with pytest.raises(EnvironmentNotReadyError, match="no mpiexec in PATH"):
        find_batch_launch("pals")
    (tmp_path / "mpiexec").write_text("#!/bin/sh\n")
    (tmp_path / "mpiexec").chmod(0o755)
    assert find_batch_launch("pals") == BatchLaunch(
        "pals", str(tmp_path / "mpiexec"), (Host("n1", 4),)
    )


def test_one_process_of_its_own_starts_the_workers():
    command = TensorFlowWorkers().command(JOB)

    assert command[0] == sys.executable
    assert command[-5:] == ["--np=2", "--", "python", "train.py", "--np=7"]
    assert "hvdprof.launch.remote.tensorflow_workers" in command


def test_a_strategy_of_one_process_has_one_worker():
    assert "--np=1" in TensorFlowWorkers().command(replace(JOB, engine="tf-mirrored"))


def test_a_parameter_server_is_started_beside_its_workers():
    command = TensorFlowWorkers().command(replace(JOB, engine="tf-parameter-server"))

    assert command[-6:-3] == ["--np=2", "--parameter-server", "--"]
    assert "--parameter-server" not in TensorFlowWorkers().command(JOB)


def test_ranks_of_other_engines_have_their_launcher():
    launcher = TensorFlowForItsEngines(Torchrun())

    assert launcher.command(JOB) == TensorFlowWorkers().command(JOB)
    of_ddp = replace(JOB, engine="ddp")
    assert launcher.command(of_ddp) == Torchrun().command(of_ddp)
