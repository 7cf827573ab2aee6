"""From a rank's monotonic clock to rank 0's.

The exchanges at the start and at the end each give an offset; in between it is interpolated
linearly, because quartz clocks differ by a nearly constant rate over the minutes of a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.recorder.recorder_lines import Exchange, RecorderFile

UNKNOWN_ERROR_NS = 1_000_000_000
"""Stands for an alignment of unknown error: large enough that no rank is blamed on its ground."""

UNCORRECTED_DRIFT = 100e-6
"""Rate by which clocks of two hosts may part where no second exchange tells (100 ppm, a usual
tolerance of the quartz of a server board)."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """``aligned = monotonic + offset_ns + drift * (monotonic - from_ns)``.

    ``error_ns`` bounds the error at the exchanges; ``error_rate`` is what is added to it by time
    since the only exchange.
    """

    method: str
    from_ns: int
    offset_ns: int
    drift: float
    error_ns: int
    error_rate: float = 0.0

    def aligned_ns(self, monotonic_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of the rank's clock on rank 0's monotonic clock, ns."""
        since = (monotonic_ns - self.from_ns).astype(np.float64)
        correction = np.rint(self.drift * since).astype(np.int64)
        return np.asarray(monotonic_ns + self.offset_ns + correction, dtype=np.int64)

    def errors_ns(self, monotonic_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest error of the alignment at each time, ns."""
        since = np.abs(monotonic_ns - self.from_ns).astype(np.float64)
        return np.asarray(self.error_ns + np.rint(self.error_rate * since), dtype=np.int64)


def alignment_of(file: RecorderFile, rank_0: RecorderFile | None) -> Alignment:
    """How the clock of a recorder file relates to rank 0's.

    Without any exchange, processes of one boot share the monotonic clock; across hosts the wall
    clocks stand in with an unknown error.
    """
    if file.exchanges:
        return _from_exchanges(file.exchanges)
    if rank_0 is None or not (file.header and rank_0.header):
        return Alignment("none", 0, 0, 0.0, UNKNOWN_ERROR_NS)
    if _boot(file) is not None and _boot(file) == _boot(rank_0):
        return Alignment("same-clock", 0, 0, 0.0, 0)
    offset = _wall_less_monotonic(file) - _wall_less_monotonic(rank_0)
    return Alignment("wall-clock", 0, offset, 0.0, UNKNOWN_ERROR_NS)


def _from_exchanges(exchanges: Sequence[Exchange]) -> Alignment:
    first, last = exchanges[0], exchanges[-1]
    between_ns = last.monotonic_ns - first.monotonic_ns
    if between_ns > 0:
        drift = (last.offset_ns - first.offset_ns) / between_ns
        error_ns = max(first.error_ns, last.error_ns)
        return Alignment(first.method, first.monotonic_ns, first.offset_ns, drift, error_ns)
    error_rate = 0.0 if first.method == "same-clock" else UNCORRECTED_DRIFT
    return Alignment(
        first.method, first.monotonic_ns, first.offset_ns, 0.0, first.error_ns, error_rate
    )


def _boot(file: RecorderFile) -> object:
    host = file.header.get("host")
    return host.get("boot_id") if isinstance(host, dict) else None


def _wall_less_monotonic(file: RecorderFile) -> int:
    return int(file.header["wall_ns"]) - int(file.header["monotonic_ns"])
