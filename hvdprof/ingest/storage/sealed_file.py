"""What identifies files of a cache: the content of their sources, and a checksum of their own.

Parquet has checksums of its pages at most, and none of its metadata. CRC-32 of a whole file runs at
the speed of memory.
"""

import hashlib
import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hvdprof import __version__
from hvdprof.rundir.regular_file import open_regular
from hvdprof.rundir.trusted_file import let_only_owner_write, open_trusted

_END_BYTES = 65_536
_NUM_SAMPLES = 32
_SAMPLE_BYTES = 4_096

_SETTLED_NS = 50_000_000
"""Kernels stamp changes some milliseconds coarsely: a file may change again under one stamp."""


def source_key(sources: Sequence[Path]) -> str:
    """What identifies the content of files: places, sizes, times of change, samples of the content.

    The time of change (``ctime``) is set by the kernel at every change, also where a copy keeps the
    time of modification. Hashing all of a large file would take longer than the rest of a command.
    Of a file that the user may not read, there are no samples.

    Raises:
        OSError: A file is gone, or cannot be read for another reason.
    """
    _let_settle(sources)
    digest = hashlib.sha256(__version__.encode())
    for source in sources:
        try:
            with open_regular(source) as file:
                status = os.fstat(file.fileno())
                digest.update(_facts(source, status))
                for start, length in _samples(status.st_size):
                    digest.update(os.pread(file.fileno(), length, start))
        except PermissionError:
            digest.update(_facts(source, source.stat()))
    return digest.hexdigest()


def _facts(source: Path, status: os.stat_result) -> bytes:
    times = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return repr((os.fsencode(source.resolve()), times)).encode()


def _let_settle(sources: Sequence[Path]) -> None:
    changed_ns = max(source.stat().st_ctime_ns for source in sources)
    age_ns = time.time_ns() - changed_ns
    # Of another host's file the age may be negative.
    if 0 <= age_ns < _SETTLED_NS:
        time.sleep((_SETTLED_NS - age_ns) / 1e9)


def _samples(size: int) -> list[tuple[int, int]]:
    """Start and length of the samples: both ends, and places between them."""
    if size <= 2 * _END_BYTES:
        return [(0, size)]
    step = (size - 2 * _END_BYTES) // _NUM_SAMPLES
    between = [(_END_BYTES + number * step, _SAMPLE_BYTES) for number in range(_NUM_SAMPLES)]
    return [(0, _END_BYTES), *between, (size - _END_BYTES, _END_BYTES)]


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
