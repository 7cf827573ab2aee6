"""How long the calling thread was ready to run but waited for a core, as the kernel counts it."""

import os
from pathlib import Path
from threading import get_native_id

_STATISTICS = "/proc/thread-self/schedstat"


class CoreQueue:
    """Measures the time that a thread waits for a core, on Linux; elsewhere it is always 0.

    One thread at a time uses it: the first call of another one starts anew.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._thread = 0
        self._seen_ns = 0

    def passed_s(self) -> float:
        """Seconds since the previous call in which the thread waited for a core; 0 at first."""
        if self._thread != get_native_id():
            self._open()
        if self._file is None:
            return 0.0
        # Time on a core, time waiting for one, time slices; ns (Documentation/scheduler).
        waited_ns = int(os.pread(self._file, 96, 0).split()[1])
        passed_ns, self._seen_ns = waited_ns - self._seen_ns, waited_ns
        return passed_ns / 1e9

    def _open(self) -> None:
        self.close()
        self._thread = get_native_id()
        # Kernels without scheduler statistics have no such file.
        if Path(_STATISTICS).exists():
            self._file = os.open(_STATISTICS, os.O_RDONLY | os.O_CLOEXEC)
            self._seen_ns = int(os.pread(self._file, 96, 0).split()[1])

    def close(self) -> None:
        """Stop; a later call starts anew."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._thread = None, 0

    def __del__(self) -> None:
        """Close the file."""
        self.close()
