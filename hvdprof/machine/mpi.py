"""Which MPI this interpreter would start with, and whether ``horovodrun --mpi`` can use it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OPENMPI = "openmpi"
MPICH = "mpich"
INTEL = "intel"
UNKNOWN = "unknown"

_FLAVOUR_NAMES = {OPENMPI: "Open MPI", MPICH: "MPICH", INTEL: "Intel MPI", UNKNOWN: "MPI"}
_BANNERS = (
    (OPENMPI, re.compile(r"\((?:Open MPI|OpenRTE)\)\s+(\d[\w.]*)")),
    (INTEL, re.compile(r"Intel\(R\) MPI Library.*?Version\s+([\d.]+)", re.DOTALL)),
    (MPICH, re.compile(r"(?:HYDRA build details|MPICH).*?Version:?\s+(\d[\w.]*)", re.DOTALL)),
)
# What MPI_Get_library_version begins with; MPICH and those made of it share one binary interface.
_LIBRARIES = ((OPENMPI, "Open MPI"), (INTEL, "Intel(R) MPI"), (MPICH, "MPICH"))
_LIKE_MPICH = (MPICH, INTEL)
_REMOTE_SHELL = "OMPI_MCA_plm_rsh_agent"
_SHELLS = ("ssh", "rsh")
# What horovod/runner/mpi_run.py of 0.28.1 looks for in the banner.
_HOROVODRUN_KNOWS = ("Open MPI", "OpenRTE", "IBM Spectrum MPI", "MPICH", "Intel(R) MPI")


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI installation that can start ranks.

    ``library_dir`` is the folder of its ``libmpi`` where that lies beside the launcher, so that
    ``LD_LIBRARY_PATH`` must name it; ``None`` where the system's loader finds it by itself.
    ``horovodrun_works`` says whether ``horovodrun --mpi`` can start it, provided that
    ``--binding-args`` gets ``binding_args`` where those are not empty.
    """

    flavour: str
    version: str
    mpirun: str
    library_dir: str | None
    horovodrun_works: bool
    binding_args: str

    @property
    def title(self) -> str:
        """Name and version for a reader, ``'Open MPI 4.1.8'``."""
        return f"{_FLAVOUR_NAMES[self.flavour]} {self.version}".rstrip()

    @property
    def tags_pieces(self) -> bool:
        """Whether its launcher tags what ranks print piece by piece as they write it.

        Hydra puts a rank's tag wherever it reads on, also in the middle of a line; Open MPI puts it
        before whole lines.
        """
        return _family(self.flavour) == MPICH

    def starts(self, library: str) -> bool:
        """Whether ranks that load that library find each other under this launcher.

        Under another flavour's launcher every rank is rank 0 of 1. MPICH and Intel MPI start each
        other's ranks (the MPICH ABI Compatibility Initiative, https://www.mpich.org/abi/).

        Args:
            library: What ``MPI_Get_library_version`` says; an unknown one counts as fitting.
        """
        flavour = next((flavour for flavour, name in _LIBRARIES if name in library), UNKNOWN)
        return UNKNOWN in (flavour, self.flavour) or _family(flavour) == _family(self.flavour)

    def search_path(self, inherited: str) -> str | None:
        """A PATH in which others find this ``mpirun`` first; None where they do anyway."""
        if shutil.which("mpirun", path=inherited) == self.mpirun:
            return None
        return os.pathsep.join([str(Path(self.mpirun).parent), inherited])

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Variables to set so that every process loads this MPI and no other.

        A Horovod built elsewhere may find another ``libmpi`` first, and an Open MPI that was moved
        after its build (any from a Python package) finds its own files by ``OPAL_PREFIX`` alone:
        without it a process that no ``mpirun`` started aborts in ``MPI_Init``.

        Without ssh, as in small containers, Open MPI 4 ends every job, also on this host alone,
        unless it is given another program. It would start that on other hosts.
        """
        variables: dict[str, str] = {}
        if self.flavour == OPENMPI and not _has_remote_shell(inherited):
            variables[_REMOTE_SHELL] = "false"
        if self.library_dir is None:
            return variables
        found = [part for part in inherited.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part]
        others = [part for part in found if part != self.library_dir]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join([self.library_dir, *others])
        if self.flavour == OPENMPI:
            variables["OPAL_PREFIX"] = str(Path(self.library_dir).parent)
        return variables


def _has_remote_shell(inherited: Mapping[str, str]) -> bool:
    path = inherited.get("PATH")
    return _REMOTE_SHELL in inherited or any(shutil.which(name, path=path) for name in _SHELLS)


def find_mpi(python: str = sys.executable) -> Mpi | None:
    """The MPI whose ``mpirun`` lies beside the interpreter, else the first in ``PATH``.

    ``None`` where there is no launcher, or the one that is there does not answer ``--version``.
    """
    mpirun = _find_mpirun(Path(python).parent)
    if mpirun is None:
        return None
    try:
        answer = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if answer.returncode != 0:
        return None
    return parse_mpi(answer.stdout + answer.stderr, mpirun, mpi_library_dir(mpirun))


def parse_mpi(banner: str, mpirun: str, library_dir: str | None) -> Mpi:
    """The MPI that a banner of ``mpirun --version`` describes."""
    flavour, version = _flavour(banner)
    return Mpi(
        flavour=flavour,
        version=version,
        mpirun=mpirun,
        library_dir=library_dir,
        horovodrun_works=any(name in banner for name in _HOROVODRUN_KNOWS),
        binding_args=_binding_args(flavour, version),
    )


def mpi_library_dir(mpirun: str) -> str | None:
    """The folder of the ``libmpi`` that belongs to a launcher, where it lies in its own prefix.

    ``None`` where there is none, so that the loader's own search path decides.
    """
    # Open MPI resolves links itself, and hangs in MPI_Init where OPAL_PREFIX then differs.
    prefix = Path(mpirun).parent.resolve().parent
    for folder in (prefix / "lib", prefix / "lib64"):
        if any(folder.glob("libmpi.so*")):
            return str(folder)
    return None


def find_mpicxx(python: str = sys.executable) -> str | None:
    """The ``mpicxx`` beside the interpreter, else the first in ``PATH``, else ``None``."""
    return _find_beside("mpicxx", Path(python).parent)


def _find_mpirun(folder: Path) -> str | None:
    return _find_beside("mpirun", folder) or shutil.which("mpiexec")


def _find_beside(name: str, folder: Path) -> str | None:
    return shutil.which(name, path=str(folder)) or shutil.which(name)


def _flavour(banner: str) -> tuple[str, str]:
    for flavour, pattern in _BANNERS:
        match = pattern.search(banner)
        if match:
            return flavour, match.group(1).rstrip(".")
    return UNKNOWN, ""


def _family(flavour: str) -> str:
    return MPICH if flavour in _LIKE_MPICH else flavour


def _binding_args(flavour: str, version: str) -> str:
    major = version.split(".", 1)[0]
    # Open MPI 5 takes Horovod's one-dash `-bind-to none` for the program to start.
    if flavour == OPENMPI and major.isdigit() and int(major) >= 5:
        return "--bind-to none --map-by slot"
    return ""
