"""Slurm: the allocation that this process runs in, and ``srun`` for its ranks."""

import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.hosts import Host, parse_hosts, ranks_by_host
from hvdprof.launch.plan.workload import python_program

PMIX = "pmix"

_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The nodes of a job with the tasks that each was given, and the processors of a task.

    ``cpus_per_task`` is None where the job did not say it; ``cores_by_host`` are the processors
    that the job has on each node, empty where Slurm does not say.
    """

    hosts: tuple[Host, ...]
    cpus_per_task: int | None
    cores_by_host: Mapping[str, int] = field(default_factory=dict)


def find_allocation(environment: Mapping[str, str] = os.environ) -> Allocation:
    """The allocation that this process runs in.

    Raises:
        EnvironmentNotReadyError: There is none, or Slurm does not name its nodes.
    """
    if not environment.get("SLURM_JOB_ID"):
        raise EnvironmentNotReadyError(
            "This is not inside a Slurm allocation, so --launcher srun has nowhere to run.",
            hint="salloc -n 4 hvdprof ... --launcher srun   (or add --sbatch)",
        )
    names = _node_names(environment.get("SLURM_JOB_NODELIST", ""))
    tasks = tasks_per_node(
        environment.get("SLURM_TASKS_PER_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE", "")
    )
    if len(tasks) != len(names):
        tasks = (1,) * len(names)
    cpus = environment.get("SLURM_CPUS_PER_TASK", "")
    cores = tasks_per_node(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return Allocation(
        tuple(map(Host, names, tasks)),
        int(cpus) if cpus.isdecimal() else None,
        dict(zip(names, cores, strict=True)) if len(cores) == len(names) else {},
    )


def tasks_per_node(text: str) -> tuple[int, ...]:
    """The numbers that Slurm writes as ``2(x3),1``: 2, 2, 2, 1; none where it is anything else."""
    numbers: list[int] = []
    for part in text.split(",") if text else ():
        found = _REPEATED.fullmatch(part.strip())
        if found is None:
            return ()
        numbers += [int(found[1])] * int(found[2] or 1)
    return tuple(numbers)


def find_srun() -> str:
    """The ``srun`` in PATH.

    Raises:
        EnvironmentNotReadyError: There is none.
    """
    srun = shutil.which("srun")
    if srun is None:
        raise EnvironmentNotReadyError(
            "There is no srun in PATH.", hint="Omit --launcher where there is no Slurm."
        )
    return srun


def require_pmix(srun: str) -> None:
    """Check that this Slurm can introduce MPI processes to each other by PMIx.

    Without it every task would be rank 0 of a job of its own.

    Raises:
        EnvironmentNotReadyError: It cannot.
    """
    answer = _answer([srun, "--mpi=list"])
    listed = answer.stdout + answer.stderr
    if PMIX not in re.split(r"[^\w]+", listed):
        raise EnvironmentNotReadyError(
            "This Slurm has no PMIx (srun --mpi=list), so its tasks would not find each other "
            "under MPI.",
            hint="--controller gloo needs no MPI.   (Debian: apt-get install libpmix-dev)",
        )


def _node_names(nodes: str) -> list[str]:
    if not re.search(r"[,\[]", nodes):
        names = [nodes] if nodes else []
    else:
        answer = _answer(["scontrol", "show", "hostnames", nodes])
        # Its error text holds no name of a node.
        names = answer.stdout.split() if answer.returncode == 0 else []
    if not names:
        raise EnvironmentNotReadyError(
            "Slurm does not name the nodes of this allocation (SLURM_JOB_NODELIST).",
            hint="Start hvdprof from the shell of salloc or from a job script.",
        )
    return names


def _answer(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentNotReadyError(
            f"{' '.join(command)} does not answer: {error}.",
            hint="Ask the administrator of this Slurm.",
        ) from error


@dataclass(frozen=True, slots=True)
class SrunMpi:
    """Starts ranks of MPI by ``srun --mpi=pmix``, inside an allocation."""

    srun: str
    allocation: Allocation

    def command(self, job: Job) -> list[str]:
        """``srun --mpi=pmix -n N ... PROGRAM``, every line labelled by rank."""
        placed = placement(job, self.allocation)
        return [*_srun(self.srun, PMIX, placed, self.allocation), *job.program]


@dataclass(frozen=True, slots=True)
class SrunGloo:
    """Starts ranks by ``srun`` without MPI, and gives Gloo the address where they meet.

    A process beside ``srun`` runs Horovod's rendezvous server as long as the ranks run; each rank
    gets its place from Slurm.
    """

    srun: str
    allocation: Allocation

    def command(self, job: Job) -> list[str]:
        """The rendezvous server in front of ``srun -n N ... RANK PROGRAM``."""
        placed = placement(job, self.allocation)
        hosts = ",".join(f"{name}:{ranks}" for name, ranks in placed.items())
        return [
            *python_program("hvdprof.launch.launchers.gloo_rendezvous", hosts),
            *_srun(self.srun, "none", placed, self.allocation),
            *python_program("hvdprof.launch.launchers.gloo_rank"),
            *job.program,
        ]


def placement(job: Job, allocation: Allocation) -> dict[str, int]:
    """The ranks of each host, filled in order; with more ranks than tasks all take more."""
    hosts = parse_hosts(job.hosts) if job.hosts else allocation.hosts
    slots = sum(host.slots for host in hosts)
    factor = math.ceil(job.size / slots)
    return ranks_by_host(tuple(Host(host.name, host.slots * factor) for host in hosts), job.size)


def _srun(srun: str, mpi: str, placed: dict[str, int], allocation: Allocation) -> list[str]:
    nodes = [name for name, ranks in placed.items() for _ in range(ranks)]
    # Since Slurm 22.05 a step does not inherit it, and its ranks would share one processor each.
    cpus = [f"--cpus-per-task={allocation.cpus_per_task}"] if allocation.cpus_per_task else []
    return [
        srun,
        f"--mpi={mpi}",
        *("-n", str(len(nodes))),
        *("--distribution=arbitrary", f"--nodelist={','.join(nodes)}"),
        *cpus,
        # Ranks pin themselves, may be more than processors, and share them with the job's shell.
        *("--overcommit", "--overlap"),
        *("--label", "--kill-on-bad-exit=1", "--export=ALL"),
    ]
