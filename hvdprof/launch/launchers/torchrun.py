"""Ranks without Horovod: ``torchrun`` for DDP, and the workers of ``tf.distribute``."""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.plan.hosts import parse_hosts, ranks_by_host
from hvdprof.launch.plan.workload import python_program
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    DDP_ENGINE,
    TF_ENGINES,
    TF_OF_ONE_PROCESS,
    TF_PARAMETER_SERVER,
)

LOOPBACK = "127.0.0.1"
OF_TORCHRUN = (DDP_ENGINE, DATA_PARALLEL_ENGINE)
_ON_HOSTS = "hvdprof.launch.remote.torchrun_hosts"

_ON_THIS_HOST = "hvdprof.launch.remote.tensorflow_workers"


@dataclass(frozen=True, slots=True)
class Torchrun:
    """Starts ranks by ``torchrun``: on this host, or where hosts are named once on each of them.

    On this host alone a free port is its own choice, and the ranks meet on the loopback address,
    which needs no name of the host that can be looked up. ``options`` are further options of the
    user's own.
    """

    options: tuple[str, ...] = ()

    def command(self, job: Job) -> list[str]:
        """``python -m torch.distributed.run --standalone --nproc-per-node N PROGRAM``.

        With hosts ``python -m hvdprof.launch.remote.torchrun_hosts --hosts HOSTS -- PROGRAM``,
        which starts one ``torchrun`` on each.
        """
        program = (*self.options, "--no-python", *job.program)
        if job.hosts:
            placed = ranks_by_host(parse_hosts(job.hosts), job.size)
            hosts = ",".join(f"{name}:{ranks}" for name, ranks in placed.items())
            exported = ",".join(sorted({*job.environment, *job.passed_on}))
            options = (f"--hosts={hosts}", f"--export={exported}", "--")
            return [*python_program(_ON_HOSTS), *options, *program]
        return [
            *python_program("torch.distributed.run", "--standalone"),
            f"--local-addr={LOOPBACK}",
            # All replicas are in one process.
            f"--nproc-per-node={1 if job.engine == DATA_PARALLEL_ENGINE else job.size}",
            # A failed rank is a failed launch: torchrun must not start ranks again.
            "--max-restarts=0",
            *program,
        ]


@dataclass(frozen=True, slots=True)
class TorchrunForDdp:
    """Starts ranks of PyTorch's by ``torchrun`` and all others by the launcher of the sweep."""

    others: Launcher

    def command(self, job: Job) -> list[str]:
        """The argument list of the launcher that the job's engine needs."""
        launcher = Torchrun() if job.engine in OF_TORCHRUN else self.others
        return launcher.command(job)


@dataclass(frozen=True, slots=True)
class TensorFlowWorkers:
    """Starts one worker per rank on this host, each with its place in ``TF_CONFIG``."""

    def command(self, job: Job) -> list[str]:
        """``python -m hvdprof.launch.remote.tensorflow_workers --np N -- PROGRAM``.

        Under ParameterServerStrategy with ``--parameter-server``.
        """
        size = 1 if job.engine in TF_OF_ONE_PROCESS else job.size
        server = ["--parameter-server"] if job.engine == TF_PARAMETER_SERVER else []
        return [*python_program(_ON_THIS_HOST, f"--np={size}", *server, "--"), *job.program]


@dataclass(frozen=True, slots=True)
class TensorFlowForItsEngines:
    """Starts ranks of ``tf.distribute`` by ``TensorFlowWorkers``, others by another launcher."""

    others: Launcher

    def command(self, job: Job) -> list[str]:
        """The argument list of the launcher that the job's engine needs."""
        launcher = TensorFlowWorkers() if job.engine in TF_ENGINES else self.others
        return launcher.command(job)
