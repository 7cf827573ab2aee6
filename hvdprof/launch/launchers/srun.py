"""``srun`` of Slurm, for ranks that find each other by MPI or by Gloo."""

import math
from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.launchers.slurm_allocation import PMIX, Allocation
from hvdprof.launch.plan.hosts import Host, parse_hosts, ranks_by_host
from hvdprof.launch.plan.provenance import python_program


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
