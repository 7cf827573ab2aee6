"""What identifies the content of files, so that tables made of them can be found in a cache."""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from hvdprof import __version__
from hvdprof.rundir.regular_file import open_regular

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
