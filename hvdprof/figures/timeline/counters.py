"""Executions of a pass: counters of bytes and bus bandwidth, and arrows of their releases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.timeline_lanes import Lanes
from hvdprof.figures.timeline.timeline_rows import Row
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


_MOST_ARROWS = 30
_MOST_RANKS = 64


def release_arrows(
    lanes: Lanes, rows: Sequence[Row], executions: Executions, seen: tuple[int, int]
) -> list[dict[str, object]]:
    """One arrow per execution in view, where they are few and ranks recorded ready times.

    ``lane`` and ``from`` are the last rank's lane and its last ready time, ``to`` the end of the
    execution, which releases the ranks of ``others``.

    Args:
        lanes: The lanes of a pass.
        rows: The rows that are shown.
        executions: The executions of the pass.
        seen: The window on the clock of the tables, ns.
    """
    shown = {row.lane for row in rows if 0 <= row.lane < lanes.num_ranks}
    inside = executions.between(*seen)
    if not 0 < len(inside) <= _MOST_ARROWS or len(shown) < 2:
        return []
    arrivals = last_arrivals(lanes, executions, inside)
    others = sorted(shown)[:_MOST_RANKS]
    return [
        {
            "lane": lane,
            "from": ready_ns - lanes.origin_ns,
            "to": int(executions.end_ns[place]) - lanes.origin_ns,
            "others": [other for other in others if other != lane],
        }
        for place, (lane, ready_ns) in arrivals.items()
        if lane in shown
    ]


def last_arrivals(lanes: Lanes, executions: Executions, places: Ints) -> dict[int, tuple[int, int]]:
    """By execution: the lane of the rank whose last gradient was ready last, and that time.

    Executions without ready times of at least two ranks are omitted.
    """
    operations = _operations(lanes, executions, places)
    if operations.empty:
        return {}
    ready = lanes.run.arrivals
    keys = ["segment", "step", "tensor"]
    wanted = (ready["pass_id"] == lanes.pass_id).to_numpy(bool)
    wanted = wanted & ready["step"].isin(operations["step"].unique()).to_numpy()
    rows = ready.loc[wanted, [*keys, "rank", "ready_ns"]].astype(
        {"segment": object, "tensor": object}
    )
    joined = operations.merge(rows, on=keys)
    found: dict[int, tuple[int, int]] = {}
    for place, group in joined.groupby("place"):
        last = group.iloc[int(group["ready_ns"].to_numpy().argmax())]
        lane = int(np.searchsorted(lanes.ranks, int(last["rank"])))
        if len(set(group["rank"])) > 1 and lane < lanes.num_ranks:
            found[int(str(place))] = lane, int(last["ready_ns"])
    return found


def _operations(lanes: Lanes, executions: Executions, places: Ints) -> pd.DataFrame:
    """Segment, step and tensor of all that these executions reduce, and their places."""
    events = lanes.run.events
    first, last = executions.start_ns[places].min(), executions.end_ns[places].max()
    start = events["start_ns"].to_numpy(np.int64)
    near = np.flatnonzero((start >= first) & (start <= last))
    near = near[(events["phase"].iloc[near] == "operation").to_numpy(bool)]
    rows = events.iloc[near][["pass_id", "segment", "step", "tensor", "fusion_id"]]
    rows = rows[(rows["pass_id"] == lanes.pass_id).to_numpy(bool)]
    named = pd.DataFrame(
        {
            "place": places,
            "segment": [executions.segments[executions.segment[place]] for place in places],
            "fusion_id": executions.fusion_id[places],
        }
    )
    plain = rows.astype({"segment": object, "tensor": object}).drop(columns="pass_id")
    return named.merge(plain, on=["segment", "fusion_id"])
