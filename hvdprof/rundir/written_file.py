"""How files are written: whole or not at all, those of a run for all who may read the run.

Output, commands and environments of a job may hold secrets. A run directory is closed to other
users, or open to the group (``--share``); what lies below it stays closed when it is moved or
copied out. Where a host does not see the manifest, or the run directory is another user's, the
owner alone can read what is made there. No file of a run is a link: one that is was planted.
"""

import contextlib
import errno
import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from hvdprof.errors import StorageError
from hvdprof.rundir.layout import MANIFEST_NAME
from hvdprof.rundir.trusted_file import stranger_at

_LONGEST_PREFIX = 50
_OWNER_FILE, _OWNER_FOLDER = 0o600, 0o700
_READERS, _READERS_AND_ENTRANTS = 0o044, 0o055
_DEEPEST = 5
"""Folders between a file and its run directory, at most."""

OVERWRITE_HINT = "Add --force, or overwrite=True in Python."


@contextlib.contextmanager
def open_whole(
    path: Path,
    *,
    binary: bool = False,
    overwrite: bool = True,
    mode: int | None = None,
    is_copy: bool = False,
) -> Iterator[IO[str]]:
    """A file to write to, which takes its name only when the block ends without an exception.

    A name that ends in ``.gz`` is compressed on the way.

    Args:
        path: The file; its folder is made when missing.
        binary: Open for bytes instead of UTF-8 text.
        overwrite: Whether a file of that name may be replaced.
        mode: Who may read it; as the user's umask says when not given.
        is_copy: Whether the bytes of another file are given, compressed as they are.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    check_new(path, overwrite=overwrite)
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name may be as long as the file system allows; the temporary one is longer.
        prefix = f".{path.name[:_LONGEST_PREFIX]}."
        handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
        os.close(handle)
        is_packed = path.suffix == ".gz" and not is_copy
        with _open(temporary, compressed=is_packed, binary=binary) as file:
            yield file
        Path(temporary).chmod(_usual_mode() if mode is None else mode)
        Path(temporary).replace(path)
    except OSError as error:
        raise StorageError(
            f"Could not write {path}: {error.strerror or error}.",
            hint="Check that the folder is writable and the disk is not full.",
        ) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def check_new(path: Path, *, overwrite: bool) -> None:
    """Check that a file is not there, or may be replaced.

    Raises:
        StorageError: It exists and may not be replaced, or its path cannot be looked at.
    """
    try:
        is_there = path.exists()
    except OSError as error:
        raise StorageError(
            f"Could not write {path}: {error.strerror or error}.", hint="Choose another path."
        ) from error
    if is_there and not overwrite:
        raise StorageError(f"{path} exists and is not overwritten.", hint=OVERWRITE_HINT)


def write_whole(path: Path, text: str, *, overwrite: bool = True, mode: int | None = None) -> None:
    """Write a text file whole or not at all; see ``open_whole``."""
    with open_whole(path, overwrite=overwrite, mode=mode) as file:
        file.write(text)


def _open(name: str, *, compressed: bool, binary: bool) -> IO[str]:
    mode = "wb" if binary else "wt"
    # Names of files need not be UTF-8: their other bytes are escaped, in JSON as JSON does.
    encoding, errors = (None, None) if binary else ("utf-8", "backslashreplace")
    opener: Callable[..., IO[str]] = gzip.open if compressed else open
    return opener(name, mode, encoding=encoding, errors=errors)


def _usual_mode() -> int:
    # mkstemp makes files that no other user may read; a report is meant to be shared.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_place(folder: Path) -> None:
    """Check that no other user can exchange a run directory, or plant files in it.

    Raises:
        StorageError: Another user can.
    """
    if reason := stranger_at(folder):
        raise StorageError(
            f"A run cannot be written to {folder.parent}: {reason}.",
            hint="Make a folder of your own, and name one in it: "
            "mkdir -m 700 mine; hvdprof ... --output mine/run",
        )


def make_place(folder: Path) -> None:
    """Make the folders above a new run directory.

    Raises:
        StorageError: Another user could exchange the run directory.
        OSError: One could not be made.
    """
    check_place(folder)
    for missing in reversed([place for place in folder.parents if not place.exists()]):
        # Without the umask of the user, everyone could write to them.
        missing.mkdir(0o755, exist_ok=True)


def mode_of_files(run_folder: Path) -> int:
    """The mode of every file of a run whose directory this is; of its owner where it is not."""
    return _OWNER_FILE | (_own_mode(run_folder) & _READERS if run_folder.exists() else 0)


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
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
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
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, as no file of a run is", str(path)) from error
        raise


def _own_mode(folder: Path) -> int:
    status = folder.stat()
    return status.st_mode if status.st_uid == os.geteuid() else 0


def _run_mode(path: Path) -> int:
    """The mode of the run directory above a path; 0 where there is none."""
    for folder in islice(path.absolute().parents, _DEEPEST):
        if (folder / MANIFEST_NAME).is_file():
            return _own_mode(folder)
    return 0
