"""From a rank's monotonic clock to rank 0's.

The exchanges at the start and at the end each give an offset; in between it is interpolated
linearly, because quartz clocks differ by a nearly constant rate over the minutes of a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.recorder.recorder_file import Exchange, RecorderFile
from hvdprof.rundir.recording.recorder_format import SAME_CLOCK

UNKNOWN_ERROR_NS = 1_000_000_000
"""Stands for an unknown error of an alignment: large enough that no wait is attributed by it."""

UNCORRECTED_DRIFT = 100e-6
"""Rate by which clocks of two hosts may part where no second exchange shows it (100 ppm, a usual
tolerance of the quartz of a server board)."""

LARGEST_DRIFT = 1.0
"""No clock gains a second per second: one of the exchanges is damaged."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """``aligned = monotonic + offset_ns + drift * (monotonic - from_ns)``.

    ``error_ns`` bounds the error at the exchanges; ``error_rate`` times the time since the only
    exchange is added to it.
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
    boot = file.host_fact("boot_id")
    if boot is not None and boot == rank_0.host_fact("boot_id"):
        return Alignment(SAME_CLOCK, 0, 0, 0.0, 0)
    offset = _wall_less_monotonic(file) - _wall_less_monotonic(rank_0)
    return Alignment("wall-clock", 0, offset, 0.0, UNKNOWN_ERROR_NS)


def _from_exchanges(exchanges: Sequence[Exchange]) -> Alignment:
    first, last = exchanges[0], exchanges[-1]
    between_ns = last.monotonic_ns - first.monotonic_ns
    if between_ns > 0:
        drift = (last.offset_ns - first.offset_ns) / between_ns
        if abs(drift) >= LARGEST_DRIFT:
            return Alignment(
                first.method, first.monotonic_ns, first.offset_ns, 0.0, UNKNOWN_ERROR_NS
            )
        error_ns = max(first.error_ns, last.error_ns)
        return Alignment(first.method, first.monotonic_ns, first.offset_ns, drift, error_ns)
    error_rate = 0.0 if first.method == SAME_CLOCK else UNCORRECTED_DRIFT
    return Alignment(
        first.method, first.monotonic_ns, first.offset_ns, 0.0, first.error_ns, error_rate
    )


def _wall_less_monotonic(file: RecorderFile) -> int:
    return file.header_number("wall_ns", 0) - file.header_number("monotonic_ns", 0)
