import sys
from pathlib import Path

import pytest

from hvdprof.collect.clock.clock_exchange import own_addresses
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.launchers.gloo_rank import interface_towards, rank_variables
from hvdprof.launch.launchers.gloo_rank import main as become_rank
from hvdprof.launch.launchers.gloo_rendezvous import own_address
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.launchers.slurm_allocation import (
    Allocation,
    SrunGloo,
    SrunMpi,
    find_allocation,
    placement,
    tasks_per_node,
)
from hvdprof.launch.plan.hosts import Host

ALLOCATION = Allocation((Host("n1", 2), Host("n2", 2)), cpus_per_task=3)


def job(size: int, hosts: str | None = None) -> Job:
    return Job(
        size=size,
        program=("python", "a.py"),
        hosts=hosts,
        environment={},
        passed_on=(),
        device="cpu",
    )


def test_srun_for_mpi() -> None:
    assert SrunMpi("/usr/bin/srun", ALLOCATION).command(job(3)) == [
        "/usr/bin/srun",
        "--mpi=pmix",
        "-n",
        "3",
        "--distribution=arbitrary",
        "--nodelist=n1,n1,n2",
        "--cpus-per-task=3",
        "--overcommit",
        "--overlap",
        "--label",
        "--kill-on-bad-exit=1",
        "--export=ALL",
        "python",
        "a.py",
    ]


def test_srun_for_gloo_stands_between_the_meeting_point_and_the_ranks() -> None:
    command = SrunGloo("srun", Allocation((Host("n1", 4),), None)).command(job(2))
    assert command[:5] == [
        *(sys.executable, "-m", "hvdprof.launch.launchers.gloo_rendezvous"),
        *("n1:2", "srun"),
    ]
    assert "--mpi=none" in command
    assert not any(part.startswith("--cpus-per-task") for part in command)
    assert command[-5:] == [
        *(sys.executable, "-m", "hvdprof.launch.launchers.gloo_rank"),
        *("python", "a.py"),
    ]


def test_ranks_fill_hosts_in_order_and_all_alike_where_there_are_too_few() -> None:
    assert placement(job(1), ALLOCATION) == {"n1": 1}
    assert placement(job(5), ALLOCATION) == {"n1": 4, "n2": 1}
    assert placement(job(2, "n2:1,n1:1"), ALLOCATION) == {"n2": 1, "n1": 1}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2(x3),1", (2, 2, 2, 1)), ("4", (4,)), ("", ()), ("2(x", ()), ("1,2", (1, 2))],
)
def test_tasks_of_nodes(text: str, numbers: tuple[int, ...]) -> None:
    assert tasks_per_node(text) == numbers


def test_the_allocation_of_a_shell() -> None:
    variables = {
        "SLURM_JOB_ID": "5",
        "SLURM_JOB_NODELIST": "vm",
        "SLURM_TASKS_PER_NODE": "2",
        "SLURM_CPUS_PER_TASK": "4",
    }
    assert find_allocation(variables) == Allocation((Host("vm", 2),), 4)
    del variables["SLURM_TASKS_PER_NODE"]
    assert find_allocation(variables).hosts == (Host("vm", 1),)
    with pytest.raises(EnvironmentNotReadyError, match="does not name the nodes"):
        find_allocation({"SLURM_JOB_ID": "5"})


def test_what_slurm_complains_of_is_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    inside = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)"}

    scontrol.write_text("#!/bin/sh\necho 'scontrol: warning: old' >&2\necho n1\necho n2\n")
    scontrol.chmod(0o755)
    assert find_allocation(inside).hosts == (Host("n1", 1), Host("n2", 1))
    scontrol.write_text("#!/bin/sh\necho 'scontrol: error: Invalid hostlist' >&2\nexit 1\n")
    with pytest.raises(EnvironmentNotReadyError, match="does not name the nodes"):
        find_allocation(inside)


def test_the_variables_of_a_rank_of_gloo() -> None:
    slurm = {
        "SLURM_PROCID": "4",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2,1,2",
        "SLURMD_NODENAME": "n3",
    }
    variables = rank_variables(slurm)
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    # The node in the middle has no local rank 1.
    assert [variables[f"HOROVOD_{name}"] for name in names] == ["4", "5", "1", "2", "1", "2"]
    assert variables["HOROVOD_HOSTNAME"] == "n3"
    with pytest.raises(EnvironmentNotReadyError, match="not started by srun"):
        rank_variables({**slurm, "SLURM_NODEID": "9"})
    with pytest.raises(EnvironmentNotReadyError, match="SLURM_PROCID"):
        rank_variables({})


def test_a_host_alone_meets_on_the_loopback() -> None:
    assert own_address([Host("localhost", 2)]) == "127.0.0.1"
    assert interface_towards("127.0.0.1") == "lo"
    assert own_address([Host("127.0.0.2", 1)]).startswith("127.")


def test_nodes_whose_names_cannot_be_looked_up_meet_at_an_address_of_this_host() -> None:
    address = own_address([Host("no-such-node.invalid", 1)])
    assert address in (*own_addresses(), "127.0.0.1")
    assert interface_towards(address)


def test_a_rank_says_in_a_line_why_it_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"^hvdprof: This process was not started by srun"):
        become_rank(["true"])
    for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "1")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    with pytest.raises(SystemExit, match=r" cannot start no-such-program: No such file or direc"):
        become_rank(["no-such-program"])
