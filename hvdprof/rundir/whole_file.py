"""Files are written whole or not at all."""

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hvdprof.errors import StorageError

_LONGEST_PREFIX = 50


@contextlib.contextmanager
def open_whole(
    path: Path, *, binary: bool = False, overwrite: bool = True, mode: int | None = None
) -> Iterator[IO[str]]:
    """A file to write to, which takes its name only when the block ends without an exception.

    A name that ends in ``.gz`` is compressed on the way.

    Args:
        path: The file; its folder is made when missing.
        binary: Open for bytes instead of UTF-8 text.
        overwrite: Whether a file of that name may be replaced.
        mode: Who may read it; as the user's umask says when not given.

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
        with _open(temporary, compressed=path.suffix == ".gz", binary=binary) as file:
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
        raise StorageError(f"{path} exists and is not overwritten.", hint="Add --force.")


def write_whole(path: Path, text: str, *, overwrite: bool = True, mode: int | None = None) -> None:
    """Write a text file whole or not at all; see ``open_whole``."""
    with open_whole(path, overwrite=overwrite, mode=mode) as file:
        file.write(text)


def _open(name: str, *, compressed: bool, binary: bool) -> IO[str]:
    mode = "wb" if binary else "wt"
    encoding = None if binary else "utf-8"
    if compressed:
        return gzip.open(name, mode, encoding=encoding)  # type: ignore[return-value]
    return Path(name).open(mode, encoding=encoding)


def _usual_mode() -> int:
    # mkstemp makes files that no other user may read; a report is meant to be shared.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
