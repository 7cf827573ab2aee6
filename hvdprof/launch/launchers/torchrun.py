"""``torchrun``, PyTorch's own launcher, for ranks of DDP on this host.

Tested in ``tests/launch/test_launchers.py``.
"""

from dataclasses import dataclass

from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.plan.provenance import python_program
from hvdprof.rundir.plan import DDP_ENGINE

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Torchrun:
    """Starts ranks by ``torchrun`` on this host alone: it does not start itself on others.

    A free port is its own choice. The ranks meet on the loopback address, which needs no name of
    the host that can be looked up. ``options`` are further options of the user's own.
    """

    options: tuple[str, ...] = ()

    def command(self, job: Job) -> list[str]:
        """``python -m torch.distributed.run --standalone --nproc-per-node N PROGRAM``."""
        return [
            *python_program("torch.distributed.run", "--standalone"),
            f"--local-addr={LOOPBACK}",
            f"--nproc-per-node={job.size}",
            # A failed rank is a failed launch: torchrun must not start ranks again.
            "--max-restarts=0",
            *self.options,
            "--no-python",
            *job.program,
        ]


@dataclass(frozen=True, slots=True)
class TorchrunForDdp:
    """Starts ranks of DDP by ``torchrun`` and all others by the launcher of the sweep."""

    others: Launcher

    def command(self, job: Job) -> list[str]:
        """The argument list of the launcher that the job's engine needs."""
        launcher = Torchrun() if job.engine == DDP_ENGINE else self.others
        return launcher.command(job)
