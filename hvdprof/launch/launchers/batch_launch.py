"""Ranks without ``horovodrun``: those of MPI on a batch system, ``torchrun``, ``tf.distribute``.

Never run. Options and variables are as published: of ``jsrun`` by OLCF's quick start guide and
Horovod's ``runner/js_run.py``, of ``aprun`` by Cray's S-2496, of ``mpiexec`` of PALS by ALCF's
pages on Polaris; ``LSB_MCPU_HOSTS`` and ``PBS_NODEFILE`` by the manuals of LSF and PBS.
"""

import math
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.launchers.slurm_allocation import find_allocation
from hvdprof.launch.plan.hosts import Host, parse_hosts, ranks_by_host
from hvdprof.launch.plan.options import APRUN, JSRUN, PALS, SRUN
from hvdprof.launch.plan.workload import OMP_THREADS, python_program
from hvdprof.rundir.plan import (
    DATA_PARALLEL_ENGINE,
    DDP_ENGINE,
    TF_ENGINES,
    TF_OF_ONE_PROCESS,
    TF_PARAMETER_SERVER,
)

_PROGRAMS = {JSRUN: "jsrun", APRUN: "aprun", PALS: "mpiexec"}
_BATCH = {JSRUN: "LSF", APRUN: "PBS", PALS: "PBS"}
# What Summit names the node that starts a job and has no ranks.
_LAUNCH_NODES = ("batch", "login")

LOOPBACK = "127.0.0.1"
OF_TORCHRUN = (DDP_ENGINE, DATA_PARALLEL_ENGINE)
_ON_HOSTS = "hvdprof.launch.remote.torchrun_hosts"

_ON_THIS_HOST = "hvdprof.launch.remote.tensorflow_workers"


@dataclass(frozen=True, slots=True)
class BatchLaunch:
    """Starts ranks by a launcher that takes the nodes of the surrounding job by itself.

    ``name`` is one of ``jsrun``, ``aprun`` and ``pals``, ``program`` its path, ``hosts`` the nodes
    with their slots.
    """

    name: str
    program: str
    hosts: tuple[Host, ...]

    def command(self, job: Job) -> list[str]:
        """``jsrun --nrs N ...``, ``aprun -n N ...`` or ``mpiexec -n N ... PROGRAM``.

        Each rank gets as many processors as it has threads, one where that is not said.
        """
        size, cores = str(job.size), job.environment.get(OMP_THREADS, "1")
        # A file of PBS may have one line per node, which has room for more ranks.
        slots = max(max(host.slots for host in self.hosts), math.ceil(job.size / len(self.hosts)))
        each = str(min(job.size, slots))
        options: tuple[str, ...]
        if self.name == JSRUN:
            gpu = ("--gpu_per_rs", "1") if job.device == "cuda" else ()
            options = ("--nrs", size, "--tasks_per_rs", "1", "--cpu_per_rs", cores, *gpu)
            options = (*options, "--bind", "rs")
        elif self.name == APRUN:
            options = ("-n", size, "-N", each, "-d", cores)
        else:
            places = ("--depth", cores, "--cpu-bind", "depth")
            options = ("-n", size, "--ppn", each, *places, "--label")
        return [self.program, *options, *job.program]


def find_batch_launch(name: str) -> BatchLaunch:
    """The launcher of that name, in the job that this process is in.

    Raises:
        EnvironmentNotReadyError: Its program is not there, or this is not inside of a job.
    """
    hosts = hosts_of_job(name)
    program = shutil.which(_PROGRAMS[name])
    if program is None:
        raise EnvironmentNotReadyError(
            f"There is no {_PROGRAMS[name]} in PATH, so --launcher {name} cannot start ranks.",
            hint="Load the module that has it, or omit --launcher.",
        )
    return BatchLaunch(name, program, hosts)


def hosts_of_job(name: str, environment: Mapping[str, str] = os.environ) -> tuple[Host, ...]:
    """The nodes with ranks of the job that this process is in, with their slots.

    Args:
        name: The launcher, one of ``options.IN_A_JOB``.
        environment: Of this process.

    Raises:
        EnvironmentNotReadyError: This is not inside of a job, or it does not name its nodes.
    """
    if name == SRUN:
        return find_allocation(environment).hosts
    counted = _of_lsf(environment) if name == JSRUN else _of_nodefile(environment, "PBS_NODEFILE")
    if not counted:
        raise EnvironmentNotReadyError(
            f"This is not inside a job of {_BATCH[name]}, so --launcher {name} has nowhere to run.",
            hint=f"Start hvdprof in a job script or an interactive job of {_BATCH[name]}.",
        )
    return tuple(Host(node, slots) for node, slots in counted.items())


def _of_lsf(environment: Mapping[str, str]) -> dict[str, int]:
    words = environment.get("LSB_MCPU_HOSTS", "").split()
    is_pairs = len(words) % 2 == 0 and all(word.isdecimal() for word in words[1::2])
    pairs = zip(words[::2], map(int, words[1::2]), strict=True) if is_pairs else ()
    counted = dict(pairs) or _of_nodefile(environment, "LSB_DJOB_HOSTFILE")
    of_ranks = {
        node: slots for node, slots in counted.items() if not node.startswith(_LAUNCH_NODES)
    }
    return of_ranks or counted


def _of_nodefile(environment: Mapping[str, str], variable: str) -> dict[str, int]:
    """The lines of a file that has one per slot."""
    try:
        lines = Path(environment[variable]).read_text(encoding="utf-8").split()
    except (KeyError, OSError):
        # No job, or one whose file only its first node has: both are reported alike.
        return {}
    return dict(Counter(lines))


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
