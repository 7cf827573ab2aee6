"""CMake, setuptools and wheel for the build: those of the environment, else some of its own.

Only the build needs them. Where one is missing or unfit, pip puts all three into a folder that
lives as long as the build, and nothing of the environment changes.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError

BUILD_PIN = Path(__file__).with_name("build.txt")
"""Requirements with the hashes of the files that pip may download for them."""

_CMAKE_FIRST = (3, 21)
_SETUPTOOLS_END = 80
_ADVICE = "python -m pip install 'cmake>=3.21,<4' 'setuptools<80' wheel"


def provide_packages(
    run: Callable[[Sequence[str]], int], environment: Mapping[str, str], folder: Path, python: str
) -> dict[str, str]:
    """The environment of a build, in which CMake, setuptools and wheel are there and fit.

    Args:
        run: Executes a command and returns its exit code; called only where something is unfit.
        environment: Of the build as it would be without this module, with ``PATH``.
        folder: For the packages, where they have to be downloaded.
        python: The interpreter that builds.

    Raises:
        EnvironmentNotReadyError: pip could not download them.
    """
    unfit = unfit_packages(environment["PATH"])
    if not unfit:
        return dict(environment)
    if run(packages_command(python, folder)) != 0:
        raise EnvironmentNotReadyError(
            f"Horovod cannot be built here: {', '.join(unfit)}, and pip could not download others.",
            hint=_ADVICE,
        )
    return with_packages(environment, folder)


def unfit_packages(path: str) -> list[str]:
    """What cannot build Horovod here, each with the reason: ``'setuptools 80.1 is too new'``.

    Args:
        path: Where to look for CMake, in the form of ``PATH``.
    """
    reasons = (_cmake_problem(path), _setuptools_problem(), _wheel_problem())
    return [reason for reason in reasons if reason]


def cmake_version(path: str) -> str | None:
    """The version of the CMake that a build with this ``PATH`` uses; ``None`` without one."""
    program = shutil.which("cmake", path=path)
    if program is None:
        return None
    answer = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    found = re.search(r"version (\d+\.\d+[.\d]*)", answer.stdout)
    return found[1] if found else None


def packages_command(python: str, folder: Path) -> list[str]:
    """The pip command that puts CMake, setuptools and wheel into a folder."""
    options = ["--no-deps", "--target", str(folder), "--require-hashes", "-r", str(BUILD_PIN)]
    return [python, "-m", "pip", "install", *options]


def with_packages(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """An environment whose builds use the packages of a folder before all others."""
    inherited = environment.get("PYTHONPATH")
    return {
        **environment,
        # The program itself: its start script would need PYTHONPATH wherever it is called.
        "PATH": f"{folder / 'cmake' / 'data' / 'bin'}{os.pathsep}{environment['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{inherited}" if inherited else str(folder),
    }


def _cmake_problem(path: str) -> str | None:
    version = cmake_version(path)
    if version is None:
        return "CMake is missing"
    first, second = version.split(".")[:2]
    too_old = (int(first), int(second)) < _CMAKE_FIRST
    # Older ones do not read a toolchain file that the environment names.
    return f"CMake {version} is too old" if too_old else None


def _setuptools_problem() -> str | None:
    version = installed_version("setuptools")
    if version is None:
        return "setuptools is missing"
    # Horovod's setup.py uses what setuptools 80 removed.
    too_new = int(version.split(".", 1)[0]) >= _SETUPTOOLS_END
    return f"setuptools {version} is too new" if too_new else None


def _wheel_problem() -> str | None:
    return None if installed_version("wheel") else "wheel is missing"


def installed_version(package: str) -> str | None:
    """The version of a package that is installed here; None without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
