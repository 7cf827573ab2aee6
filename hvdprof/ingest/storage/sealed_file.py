"""Files of a cache with a checksum in their names, so that damage anywhere in them is seen.

Parquet has checksums of its pages at most, and none of its metadata. CRC-32 of a whole file runs at
the speed of memory.
"""

import os
import zlib
from pathlib import Path

import pyarrow as pa

from hvdprof.rundir.trusted_file import let_only_owner_write, open_trusted

_CHECKSUM_LETTERS = 8
_ENDING = ".parquet"
_PIECE_BYTES = 1 << 20
_checksums: dict[tuple[int, int, int, int], str] = {}


def seal(path: Path) -> Path:
    """Give a finished file its name with the checksum, and take the rights of others to write.

    Raises:
        OSError: It cannot be read or renamed.
    """
    let_only_owner_write(path)
    sealed = path.with_name(f"{path.name.removesuffix(_ENDING)}-{_checksum(path, path)}{_ENDING}")
    return path.replace(sealed)


def sealed_names(folder: Path, stem: str) -> list[str]:
    """The names of sealed files in a folder that begin with a stem, sorted.

    Raises:
        OSError: The folder cannot be listed.
    """
    length = len(stem) + 1 + _CHECKSUM_LETTERS + len(_ENDING)
    return sorted(
        name
        for name in os.listdir(folder)  # noqa: PTH208 - names alone
        if name.startswith(f"{stem}-") and name.endswith(_ENDING) and len(name) == length
    )


def find_sealed(folder: Path, stem: str, beside: Path) -> Path | None:
    """The undamaged file with this stem that can be trusted; None where there is none."""
    try:
        for name in sealed_names(folder, stem):
            path = folder / name
            stated = name.removesuffix(_ENDING)[-_CHECKSUM_LETTERS:]
            if _checksum(path, beside) == stated:
                return path
    except OSError:
        return None
    return None


def opened(path: Path) -> pa.NativeFile:
    """A file for Arrow, which takes no path that is not UTF-8.

    It stays readable when it is replaced or removed.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return pa.OSFile(f"/dev/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _checksum(path: Path, beside: Path) -> str:
    """The checksum of a file that can be trusted.

    Raises:
        OSError: It cannot be read, or not be trusted.
    """
    with open_trusted(path, beside=beside) as file:
        status = os.fstat(file.fileno())
        state = (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
        # A command asks for the same file several times.
        if state not in _checksums:
            checksum = 0
            while piece := file.read(_PIECE_BYTES):
                checksum = zlib.crc32(piece, checksum)
            _checksums[state] = f"{checksum:0{_CHECKSUM_LETTERS}x}"
        return _checksums[state]
