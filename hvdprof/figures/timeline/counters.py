"""Counters over the executions of a pass: bytes in flight, and bus bandwidth."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.viewport import Ints

Floats = NDArray[np.float64]
Int16s = NDArray[np.int16]

_COLUMNS = (
    *("segment", "start_ns", "dur_ns", "size_bytes", "busbw_gb_per_s", "transfer_ns"),
    "fusion_id",
)
_NOTHING = tuple(
    np.empty(0, kind)
    for kind in (np.int64, np.int64, np.float64, np.float64, np.float64, np.int64, np.int16)
)


@dataclass(frozen=True, slots=True)
class Executions:
    """The fused executions of a pass, in order of their start.

    ``bytes`` and ``busbw`` (GB/s) are NaN where unknown; ``transfer_ns`` is the transfer alone.
    ``segment`` numbers ``segments``.
    """

    start_ns: Ints
    end_ns: Ints
    bytes: Floats
    busbw: Floats
    transfer_ns: Floats
    fusion_id: Ints
    segment: Int16s
    segments: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def between(self, first_ns: int, last_ns: int) -> Ints:
        """Places of the executions that lie at least partly between two times."""
        places: Ints = np.flatnonzero((self.end_ns > first_ns) & (self.start_ns < last_ns))
        return places

    def in_flight(self, edges_ns: Ints) -> Floats:
        """Mean payload of the executions that run, bytes, between neighbouring edges."""
        known = ~np.isnan(self.bytes)
        return _mean_rate(self.start_ns[known], self.end_ns[known], self.bytes[known], edges_ns)

    def bus_bandwidth(self, edges_ns: Ints) -> Floats:
        """Bus bandwidth, GB/s, weighted by time; NaN where no execution runs between two edges."""
        known = ~np.isnan(self.busbw)
        start, end = self.start_ns[known], self.end_ns[known]
        total = _mean_rate(start, end, self.busbw[known], edges_ns)
        running = _mean_rate(start, end, np.ones(len(start)), edges_ns)
        bandwidth: Floats = np.full(len(total), np.nan)
        np.divide(total, running, out=bandwidth, where=running > 1e-9)
        return bandwidth


def executions_of(pieces: Iterable[pd.DataFrame], pass_id: str) -> Executions:
    """The executions of a pass.

    Args:
        pieces: Rows of COLLECTIVES, some at a time; they need the columns that are used alone.
        pass_id: The pass.
    """
    parts: list[tuple[NDArray[np.generic], ...]] = [_NOTHING]
    segments: dict[str, int] = {}
    for piece in pieces:
        own = (piece["pass_id"] == pass_id).to_numpy(bool) & piece["dur_ns"].notna().to_numpy(bool)
        rows = piece.loc[own, list(_COLUMNS)]
        code, names = pd.factorize(rows["segment"])
        number = [segments.setdefault(str(name), len(segments)) for name in names]
        parts.append(
            (
                rows["start_ns"].to_numpy(np.int64),
                rows["dur_ns"].to_numpy(np.int64),
                np.asarray(rows["size_bytes"].astype("float64"), dtype=np.float64),
                rows["busbw_gb_per_s"].to_numpy(np.float64),
                rows["transfer_ns"].to_numpy(np.float64),
                rows["fusion_id"].to_numpy(np.int64),
                np.array([*number, -1], np.int16)[code],
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    start, length, size, busbw, transfer, fusion, segment = (column[order] for column in columns)
    return Executions(
        start_ns=start,
        end_ns=start + length,
        bytes=size,
        busbw=busbw,
        transfer_ns=transfer,
        fusion_id=fusion,
        segment=segment,
        segments=tuple(segments),
    )


def _mean_rate(start: Ints, end: Ints, rate: Floats, edges: Ints) -> Floats:
    """Mean over each bin of the sum of the rates that are on, as a difference of integrals."""
    # Those in view alone, cut to it: the sums over a whole pass are too large to be subtracted.
    seen = (end > edges[0]) & (start < edges[-1])
    start, end, rate = start[seen].clip(min=edges[0]), end[seen].clip(max=edges[-1]), rate[seen]
    if not len(start):
        return np.zeros(len(edges) - 1)
    order = np.argsort(end, kind="stable")
    total = _integral(start, rate, edges) - _integral(end[order], rate[order], edges)
    means: Floats = np.maximum(np.diff(total), 0) / np.diff(edges)
    return means


def _integral(times: Ints, rate: Floats, edges: Ints) -> Floats:
    """The integral up to each edge of the sum of all rates that have begun by then."""
    place = np.searchsorted(times, edges, side="right")
    origin = int(edges[0])
    rates = np.concatenate([[0.0], np.cumsum(rate)])
    moments = np.concatenate([[0.0], np.cumsum(rate * (times - origin))])
    totals: Floats = rates[place] * (edges - origin) - moments[place]
    return totals
