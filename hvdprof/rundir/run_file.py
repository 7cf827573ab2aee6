"""Folders and files of a run: who may read the run directory may read them.

Output, commands and environments of a job may hold secrets. A run directory is closed to other
users, or open to the group (``--share``); what lies below it stays closed when it is moved or
copied out. Where a host does not see the manifest, the owner alone can read what is made there.
"""

import contextlib
import os
from itertools import islice
from pathlib import Path
from typing import IO

from hvdprof.rundir.layout import MANIFEST_NAME

_OWNER_FILE, _OWNER_FOLDER = 0o600, 0o700
_READERS, _READERS_AND_ENTRANTS = 0o044, 0o055
_DEEPEST = 5
"""Folders between a file and its run directory, at most."""


def mode_of_files(run_folder: Path) -> int:
    """The mode of every file of a run whose directory this is; of its owner where it is not."""
    readers = run_folder.stat().st_mode & _READERS if run_folder.exists() else 0
    return _OWNER_FILE | readers


def file_mode(path: Path) -> int:
    """The mode of a file of a run, by that of its run directory."""
    return _OWNER_FILE | _run_mode(path) & _READERS


def make_run_folders(folder: Path) -> None:
    """Make a folder of a run with those above it that are missing.

    Raises:
        OSError: One could not be made.
    """
    if folder.is_dir():
        return
    make_run_folders(folder.parent)
    mode = _OWNER_FOLDER | _run_mode(folder) & _READERS_AND_ENTRANTS
    folder.mkdir(mode, exist_ok=True)
    # Another process may have made it in between; some file systems have no modes.
    with contextlib.suppress(PermissionError):
        folder.chmod(mode)


def open_run_file(path: Path, mode: str = "a") -> IO[str]:
    """Open a text file of a run for ``"w"`` or ``"a"``.

    Raises:
        OSError: It cannot be opened.
    """
    return open(path, mode, encoding="utf-8", opener=open_descriptor)


def append_run_bytes(path: Path) -> IO[bytes]:
    """Open a file of a run to append bytes, such as the output of a job.

    Raises:
        OSError: It cannot be opened.
    """
    return open(path, "ab", opener=open_descriptor)


def open_descriptor(path: str | Path, flags: int) -> int:
    """A descriptor of a file of a run, which gets its mode where it is new.

    Raises:
        OSError: It cannot be opened; ``FileExistsError`` with ``os.O_EXCL``.
    """
    flags |= os.O_CLOEXEC
    if flags & os.O_CREAT:
        mode = file_mode(Path(path))
        try:
            descriptor = os.open(path, flags | os.O_EXCL, mode)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
        else:
            # A strict umask would close a shared run to its group. Some file systems have no modes.
            with contextlib.suppress(PermissionError):
                os.fchmod(descriptor, mode)
            return descriptor
    return os.open(path, flags)


def _run_mode(path: Path) -> int:
    """The mode of the run directory above a path; 0 where there is none."""
    for folder in islice(path.absolute().parents, _DEEPEST):
        if (folder / MANIFEST_NAME).is_file():
            return folder.stat().st_mode
    return 0
