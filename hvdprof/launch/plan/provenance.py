"""The provenance of a run: versions, and the commit of the working tree."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from hvdprof import __version__
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import Mpi


def versions(horovod: HorovodBuild, mpi: Mpi | None) -> dict[str, str]:
    """Versions of what a result depends on, by name."""
    known = {
        "hvdprof": __version__,
        "python": platform.python_version(),
        "torch": horovod.torch_version,
        "tensorflow": horovod.tensorflow_version,
        "horovod": horovod.version,
        "system": platform.platform(),
    }
    known = {name: version for name, version in known.items() if version}
    if mpi is not None:
        known["mpi"] = f"{mpi.flavour} {mpi.version}"
    if horovod.nccl_version:
        known["nccl"] = horovod.nccl_version
    return known


def git_state(folder: Path) -> dict[str, str | bool | None] | None:
    """Commit and cleanness of the working tree that a folder lies in; None outside of one.

    ``dirty`` is None where git does not answer within seconds, as over a slow network.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    # The user's index must not change.
    changes = _git(folder, "--no-optional-locks", "status", "--porcelain")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def python_program(module: str, *arguments: str) -> tuple[str, ...]:
    """The argument list that runs a module in this interpreter, on every rank alike.

    The working directory is not searched for imports: a ``json.py`` in it would run. It is where
    hvdprof itself was found there, as in a checkout that is not installed.
    """
    try:
        found_here = Path(__file__).resolve().parents[3] == Path.cwd().resolve()
    except OSError:
        # A script has removed it.
        found_here = False
    safe = () if found_here else ("-P",)
    return (sys.executable, *safe, "-m", module, *arguments)


def _git(folder: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        answer = subprocess.run(
            [git, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
