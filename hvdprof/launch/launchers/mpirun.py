"""``mpirun`` of Open MPI and ``mpiexec`` of MPICH.

Tested in ``tests/launch/test_launchers.py``.
"""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job


@dataclass(frozen=True, slots=True)
class OpenMpiRun:
    """Starts ranks by Open MPI's ``mpirun``, versions 4 and 5.

    The spellings are those that both versions take; ranks pin themselves, so nothing is bound
    here. Waiting ranks yield their core where collectives run on it: a spinning one would take
    it from the computation it waits for.
    """

    mpirun: str
    as_root: bool

    def command(self, job: Job) -> list[str]:
        """``mpirun -np N [-H HOSTS] ... PROGRAM`` with every line tagged by rank."""
        root = ["--allow-run-as-root"] if self.as_root else []
        # Without -H a launch inside a batch job would spread over the nodes of its allocation.
        hosts = ["-H", job.hosts or f"localhost:{job.size}"]
        yielding = [] if job.device == "cuda" else ["--mca", "mpi_yield_when_idle", "1"]
        names = sorted({*job.environment, *job.passed_on}) if job.hosts else []
        exported = [argument for name in names for argument in ("-x", name)]
        return [
            self.mpirun,
            *root,
            "--tag-output",
            "--oversubscribe",
            *("--bind-to", "none", "--map-by", "slot"),
            *yielding,
            *("-np", str(job.size)),
            *hosts,
            *exported,
            *job.program,
        ]


@dataclass(frozen=True, slots=True)
class MpichExec:
    """Starts ranks by Hydra, the ``mpiexec`` of MPICH."""

    mpiexec: str

    def command(self, job: Job) -> list[str]:
        """``mpiexec -n N -hosts HOSTS PROGRAM`` with every line prefixed by rank."""
        # Inside a batch job it would take the nodes of the allocation, and its srun to reach them.
        here = ["-launcher", "fork", "-hosts", f"localhost:{job.size}"]
        hosts = ["-hosts", job.hosts] if job.hosts else here
        return [self.mpiexec, "-prepend-rank", "-n", str(job.size), *hosts, *job.program]
