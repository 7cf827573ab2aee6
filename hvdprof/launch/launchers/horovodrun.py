"""``horovodrun``: Horovod's own launcher, for Gloo and in front of ``mpirun``.

Tested in ``tests/launch/test_launchers.py``.
"""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job


@dataclass(frozen=True, slots=True)
class HorovodrunGloo:
    """Starts ranks by ``horovodrun --gloo``, over ssh where hosts are named.

    It passes its whole environment to every rank by itself.
    """

    horovodrun: str

    def command(self, job: Job) -> list[str]:
        """``horovodrun --gloo -np N [-H HOSTS] PROGRAM``."""
        hosts = ["-H", job.hosts] if job.hosts else []
        return [self.horovodrun, "--gloo", "-np", str(job.size), *hosts, *job.program]


@dataclass(frozen=True, slots=True)
class HorovodrunMpi:
    """Starts ranks by ``horovodrun --mpi``, which starts ``mpirun``.

    ``binding_args`` replace Horovod's own ``-bind-to none -map-by slot`` where those are not
    understood (Open MPI 5); ``yields`` says that waiting ranks can yield their core.
    ``path`` is the PATH in which Horovod finds the right ``mpirun``, None where it does anyway.
    """

    horovodrun: str
    binding_args: str
    yields: bool
    path: str | None

    def command(self, job: Job) -> list[str]:
        """``horovodrun --mpi [--binding-args=...] -np N [-H HOSTS] PROGRAM``."""
        hosts = ["-H", job.hosts] if job.hosts else []
        binding = [f"--binding-args={self.binding_args}"] if self.binding_args else []
        yields = self.yields and job.device != "cuda"
        yielding = ["--mpi-args=--mca mpi_yield_when_idle 1 --oversubscribe"] if yields else []
        path = ["env", f"PATH={self.path}"] if self.path else []
        size = ["-np", str(job.size)]
        options = [*binding, *yielding, *size, *hosts]
        return [*path, self.horovodrun, "--mpi", *options, *job.program]
