"""A file system that is soon full."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount one of a size, such as ``60m``, at a new folder; without root the test is skipped."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}", "hvdprof-test"]
    mounted = subprocess.run(["mount", *options, str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
