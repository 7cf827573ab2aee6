import sys
from dataclasses import replace

from hvdprof.launch.launchers.batch_launch import Torchrun, TorchrunForDdp
from hvdprof.launch.launchers.choose_launcher import (
    HorovodrunGloo,
    HorovodrunMpi,
    MpichExec,
    OpenMpiRun,
)
from hvdprof.launch.launchers.launch_job import Job

JOB = Job(
    size=2,
    program=("python", "-m", "hvdprof.bench_models.train", "--plan", "p.json"),
    hosts=None,
    environment={"OMP_NUM_THREADS": "1"},
    passed_on=("PATH",),
    device="cpu",
)
PROGRAM = list(JOB.program)


def test_open_mpi_on_this_host() -> None:
    assert OpenMpiRun("/v/bin/mpirun", as_root=True).command(JOB) == [
        "/v/bin/mpirun",
        "--allow-run-as-root",
        "--tag-output",
        "--oversubscribe",
        "--bind-to",
        "none",
        "--map-by",
        "slot",
        "--mca",
        "mpi_yield_when_idle",
        "1",
        "-np",
        "2",
        "-H",
        "localhost:2",
        *PROGRAM,
    ]


def test_open_mpi_exports_variables_to_other_hosts_by_name_only() -> None:
    command = OpenMpiRun("mpirun", as_root=False).command(replace(JOB, hosts="a:1,b:1"))
    assert command[command.index("-H") : -len(PROGRAM)] == [
        *("-H", "a:1,b:1"),
        *("-x", "OMP_NUM_THREADS"),
        *("-x", "PATH"),
    ]
    assert "--allow-run-as-root" not in command


def test_waiting_ranks_keep_spinning_on_gpus() -> None:
    command = OpenMpiRun("mpirun", as_root=False).command(replace(JOB, device="cuda"))
    assert "mpi_yield_when_idle" not in command


def test_horovodrun() -> None:
    launcher = HorovodrunGloo("/v/bin/horovodrun")
    assert launcher.command(JOB) == ["/v/bin/horovodrun", "--gloo", "-np", "2", *PROGRAM]
    elsewhere = launcher.command(replace(JOB, hosts="a:1,b:1"))
    assert elsewhere[4:6] == ["-H", "a:1,b:1"]


def test_mpich() -> None:
    launcher = MpichExec("mpiexec")
    assert launcher.command(JOB) == [
        *("mpiexec", "-prepend-rank", "-n", "2"),
        *("-launcher", "fork", "-hosts", "localhost:2"),
        *PROGRAM,
    ]
    elsewhere = launcher.command(replace(JOB, hosts="a:1,b:1"))
    assert elsewhere[4 : -len(PROGRAM)] == ["-hosts", "a:1,b:1"]


def test_horovodrun_in_front_of_mpirun() -> None:
    launcher = HorovodrunMpi(
        "/v/bin/horovodrun", "--bind-to none --map-by slot", yields=True, path="/v/bin:/bin"
    )
    assert launcher.command(replace(JOB, hosts="a:1,b:1")) == [
        "env",
        "PATH=/v/bin:/bin",
        "/v/bin/horovodrun",
        "--mpi",
        "--binding-args=--bind-to none --map-by slot",
        "--mpi-args=--mca mpi_yield_when_idle 1 --oversubscribe",
        "-np",
        "2",
        "-H",
        "a:1,b:1",
        *PROGRAM,
    ]
    plain = HorovodrunMpi("horovodrun", "", yields=False, path=None).command(JOB)
    assert plain == ["horovodrun", "--mpi", "-np", "2", *PROGRAM]


def test_torchrun_starts_ranks_of_ddp_on_this_host_and_nothing_else() -> None:
    launcher = TorchrunForDdp(MpichExec("mpiexec"))
    assert launcher.command(replace(JOB, engine="ddp")) == [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",
        "--nproc-per-node=2",
        "--max-restarts=0",
        "--no-python",
        *PROGRAM,
    ]
    for engine in ("horovod", "torch"):
        assert launcher.command(replace(JOB, engine=engine))[0] == "mpiexec"


def test_torchrun_is_started_on_every_host_that_gets_ranks() -> None:
    job = replace(JOB, size=3, hosts="a:2,b:2,c:2", environment={"B": "1"}, passed_on=("A", "B"))
    assert Torchrun(("--tee", "3")).command(job) == [
        sys.executable,
        "-m",
        "hvdprof.launch.remote.torchrun_hosts",
        "--hosts=a:2,b:1",
        "--export=A,B",
        "--",
        "--tee",
        "3",
        "--no-python",
        *PROGRAM,
    ]
