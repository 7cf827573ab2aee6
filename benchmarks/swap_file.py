"""Swap for a while, for jobs whose memory is to be in it; needs root, and Linux."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
"""Control groups of version 1; those of version 2 have other files."""

SIZE_MB = 256


class NotAllowedError(Exception):
    """This machine has no swap for a job; the message says why."""


@contextlib.contextmanager
def swap_file(groups: Path = MEMORY_GROUPS) -> Iterator[None]:
    """A swap file below the folder for temporary files, given back at the end.

    Raises:
        NotAllowedError: The machine has no memory groups of version 1, or allows no swap.
    """
    if not (groups / "memory.limit_in_bytes").exists():
        raise NotAllowedError(f"{groups} has no control groups of version 1")
    with tempfile.NamedTemporaryFile(prefix="hvdprof-swap-") as file:
        for _ in range(SIZE_MB):
            file.write(bytes(1 << 20))
        file.flush()
        _run("mkswap", file.name)
        _run("swapon", file.name)
        try:
            yield
        finally:
            _run("swapoff", file.name)


def _run(program: str, file: str) -> None:
    try:
        subprocess.run([program, file], check=True, capture_output=True, text=True)
    except OSError as error:
        raise NotAllowedError(f"{program}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise NotAllowedError(str(error.stderr).strip() or f"{program} failed") from error
