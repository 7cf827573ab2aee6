"""What must be on the machine before Horovod can be built, and getting it on Debian."""

import os
import re
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install.build_packages import installed_version

APT_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")

# What Horovod's setup.py asks of the interpreter that builds it, and Horovod when it runs.
_NEEDED_PACKAGES = ("packaging", "cloudpickle", "psutil", "pyyaml", "cffi")
_MEMORY_PER_JOB_BYTES = 1_500_000_000


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A program or header that is not there, and the Debian package that brings it."""

    name: str
    debian_package: str


def missing_tools(path: str | None = None) -> list[MissingTool]:
    """The compiler, make and Python's headers, as far as they are missing.

    Args:
        path: Where to look for programs, in the form of ``PATH``; ``PATH`` itself by default.
    """
    missing = []
    compiler = os.environ.get("CXX", "").split(" ")[0]
    if not any(shutil.which(name, path=path) for name in (compiler, "c++", "g++") if name):
        missing.append(MissingTool("C++ compiler", "g++"))
    if shutil.which("make", path=path) is None:
        missing.append(MissingTool("make", "make"))
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        missing.append(MissingTool("Python's headers", "python3-dev"))
    return missing


def provide_tools(run: Callable[[Sequence[str]], int], path: str | None = None) -> list[str]:
    """Make sure that the build tools are there; the Debian packages that had to be installed.

    Only root on a system with ``apt-get`` installs by itself.

    Args:
        run: Executes a command and returns its exit code.
        path: As in ``missing_tools``.

    Raises:
        EnvironmentNotReadyError: Something is missing and was not, or could not be, installed.
    """
    missing = missing_tools(path)
    if not missing:
        return []
    packages = [tool.debian_package for tool in missing]
    names = " and ".join(tool.name for tool in missing)
    command = [*APT_INSTALL, *packages]
    problem = EnvironmentNotReadyError(
        f"Horovod cannot be built here: {names} missing.",
        hint=f"On Debian or Ubuntu: {' '.join(command)}",
    )
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise problem
    # A fresh image has no package lists yet, and lists that are there may be too old.
    if run(command) != 0 and (run(["apt-get", "update"]) != 0 or run(command) != 0):
        raise problem
    if missing_tools(path):
        raise problem
    return packages


def check_python_packages() -> None:
    """Make sure that the interpreter has what Horovod needs.

    Raises:
        EnvironmentNotReadyError: Something is not installed.
    """
    absent = [name for name in _NEEDED_PACKAGES if installed_version(name) is None]
    if absent:
        raise EnvironmentNotReadyError(
            f"Horovod cannot be built here: {', '.join(absent)} missing.",
            hint=f"python -m pip install {' '.join(absent)}",
        )


def default_jobs(num_cores: int, memory_bytes: int | None) -> int:
    """Compilers to run at once: the cores, bounded by memory (1.5 GB per compiler, at least one).

    The sources that include torch are compiled as one and took a compiler 2 GB, the others less
    than 1 GB.
    """
    if memory_bytes is None:
        return max(1, num_cores)
    return max(1, min(num_cores, memory_bytes // _MEMORY_PER_JOB_BYTES))


def available_memory_bytes() -> int | None:
    """Memory that new processes can have without swapping; ``None`` where unknown."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None
