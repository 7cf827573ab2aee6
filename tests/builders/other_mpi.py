"""An environment with another MPI than the one that the tests run in, which it sees besides."""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.builders.places import LEAN_START

_NOT_TO_BE_HAD = ("No matching distribution", "Could not find a version")
_OF_ANOTHER_MPI = ("LD_LIBRARY_PATH", "OPAL_PREFIX", "PYTHONPATH")
_COMMAND_TIMEOUT_S = 600
# Building Horovod takes two to five minutes on two cores; the package index may be slow.
_INSTALL_TIMEOUT_S = 1200


class NoOtherMpiError(Exception):
    """The package cannot be had, and why."""


@dataclass(frozen=True)
class OtherMpi:
    """A virtual environment of its own whose MPI comes first, like that of a user who has it.

    ``environment`` is that of a shell in which the virtual environment was activated.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def command(self, *arguments: str) -> list[str]:
        """The command line of hvdprof there."""
        return [self.python, "-m", "hvdprof", *arguments]

    def hvdprof(self, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """An ended command of hvdprof there."""
        return self._run(self.command(*arguments), cwd, _COMMAND_TIMEOUT_S)

    def install_horovod(self) -> str:
        """Get a Horovod for this MPI as a user does: from a cached wheel, else built for minutes.

        What was printed comes back.
        """
        done = self._run(self.command("install-horovod"), self.folder, _INSTALL_TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(
        self, command: list[str], cwd: Path, timeout_s: int
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )


@contextlib.contextmanager
def other_mpi(folder: Path, requirement: str) -> Iterator[OtherMpi]:
    """A new environment in a folder, with an MPI from the package index; removed in the end.

    All else, torch above all, is that of the running interpreter: what is installed there is found
    behind what is installed here.

    Args:
        folder: Where it is made.
        requirement: The package of the MPI, as pip takes it.

    Raises:
        NoOtherMpiError: The package index does not answer, or has no such package.
    """
    try:
        yield _made(folder, requirement)
    finally:
        # With Horovod some hundred megabytes, which pytest would keep for three sessions.
        shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path, requirement: str) -> OtherMpi:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    own = sysconfig.get_path("purelib", vars={"base": str(folder)})
    seen = sysconfig.get_path("purelib")
    # By `site`, since hvdprof itself may be installed by such a file too.
    line = f"import site; site.addsitedir({seen!r})\n"
    (Path(own) / "of_the_tests.pth").write_text(line, encoding="utf-8")
    programs = (str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_MPI}
    first = {"PATH": os.pathsep.join(programs), "PYTHONPATH": str(LEAN_START)}
    made = OtherMpi(folder, {**inherited, **first})
    _install(made, requirement)
    return made


def _install(made: OtherMpi, requirement: str) -> None:
    # The MPI of the running interpreter counts as installed here, and is not to be taken away.
    options = ("--quiet", "--no-deps", "--ignore-installed", "--disable-pip-version-check")
    done = subprocess.run(
        [made.python, "-m", "pip", "install", *options, requirement],
        env=made.environment,
        capture_output=True,
        text=True,
        timeout=_COMMAND_TIMEOUT_S,
    )
    if any(words in done.stderr for words in _NOT_TO_BE_HAD):
        raise NoOtherMpiError(f"{requirement}: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
