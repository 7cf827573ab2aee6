"""What the browser draws of a window: bars where they are few, otherwise bins, and the rest.

Times are whole nanoseconds since the first event of the pass. All lists are those of JSON.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.figures.palette import HOROVOD_COLOURS, PART_COLOURS
from hvdprof.figures.timeline.counters import Executions, release_arrows
from hvdprof.figures.timeline.range_table import view_answer
from hvdprof.figures.timeline.rank_times import QUANTILES
from hvdprof.figures.timeline.timeline_lanes import BLOCKED, CATEGORIES, INSIDE, Lanes, own_times
from hvdprof.figures.timeline.timeline_rows import Row, RowChoice, RowKind, lanes_of
from hvdprof.figures.timeline.viewport import Bins, Ints, SomeSpans, most_bins
from hvdprof.model.arrays import Float64s

COLOURS: dict[str, str] = PART_COLOURS | HOROVOD_COLOURS
MOST_BARS = 2_500
"""Up to this many events are drawn one by one."""

SHADES = 12
"""A bin is paler the less of it is busy, in so many steps."""

_MOST_STEPS = 400
_MOST_POINTS = 600
_COUNTER_BINS = 400

Floats = NDArray[np.float64]
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Asked:
    """A window: what is seen, and what is sent beyond its ends so that panning has no gaps.

    ``pixels`` is the width of the figure.
    """

    first_ns: int
    last_ns: int
    from_ns: int
    to_ns: int
    pixels: int


def view_data(
    lanes: Lanes, rows: Sequence[Row], choice: RowChoice, asked: Asked, executions: Executions
) -> Json:
    """All that is drawn between ``asked.from_ns`` and ``asked.to_ns``."""
    drawn = lanes_of(rows)
    shown = np.array(choice.is_drawn)
    first, last = lanes.origin_ns + asked.from_ns, lanes.origin_ns + asked.to_ns
    seen = (lanes.origin_ns + asked.first_ns, lanes.origin_ns + asked.last_ns)
    number = lanes.spans.count(*seen, drawn)
    is_binned = number > MOST_BARS or lanes.spans.count(first, last, drawn) > 3 * MOST_BARS
    marks, marks_text = _marks(lanes, rows, first, last)
    how = "binned, {} events" if is_binned else "{} events, each drawn"
    in_view = lanes.axis.text(asked.first_ns, asked.last_ns, " in view")
    data: Json = {
        "from": asked.from_ns,
        "to": asked.to_ns,
        "binned": is_binned,
        "answer": view_answer(lanes, executions, *seen),
        "marks": marks,
        "steps": _steps(lanes, first, last),
        "counters": _counters(lanes, rows, executions, asked),
        "bands": _bands(lanes, rows, first, last),
        "arrows": [] if is_binned else release_arrows(lanes, rows, executions, seen),
        "caption": f"{how.format(units.count(number))}{marks_text}; {in_view}.",
        "shares": view_shares(lanes, drawn, seen),
    }
    if is_binned:
        most = int(np.clip(asked.pixels, 200, 2_000))
        edges = lanes.axis.edges(asked.from_ns, asked.to_ns, most_bins(len(drawn), most))
        bins = lanes.spans.bins_between(lanes.origin_ns + edges, drawn)
        data["bins"] = _bins(lanes, bins, shown)
    else:
        data["bars"] = _bars(lanes, lanes.spans.within(first, last, drawn), shown)
    return data


def bin_codes(bins: Bins, shown: NDArray[np.bool_], blocked_in: Float64s) -> NDArray[np.uint8]:
    """A byte a bin and lane: its largest category times ``SHADES`` plus its shade; 0 where idle."""
    busy = own_times(bins.busy * shown[None, :, None], blocked_in)
    most = busy.argmax(axis=1)
    shade = np.ceil(busy.sum(axis=1).clip(max=1) * SHADES)
    codes: NDArray[np.uint8] = np.where(shade > 0, most * SHADES + shade, 0).astype(np.uint8)
    return codes


def view_shares(lanes: Lanes, drawn: Ints, seen: tuple[int, int]) -> dict[str, float]:
    """By category, its share of a view: of the phases the mean over the ranks that are shown.

    Of Horovod's the sum over its lanes, so that what overlaps counts each. Turns of hvdprof in the
    view do not count.
    """
    shown = np.unique(drawn)
    first, last = (time - lanes.origin_ns for time in seen)
    edges, parts = lanes.axis.job_parts(first, max(last, first + 1))
    whole = lanes.spans.bins_between(lanes.origin_ns + edges, shown).busy @ parts
    busy = own_times(whole[:, :, None], lanes.blocked_in)[:, :, 0]
    num_ranks = int(np.count_nonzero(shown < lanes.num_ranks))
    totals = busy[:num_ranks].sum(axis=0) / max(num_ranks, 1) + busy[num_ranks:].sum(axis=0)
    return {
        name: round(float(share), 4)
        for name, share in zip(CATEGORIES, totals, strict=True)
        if share > 0
    }


def _bins(lanes: Lanes, bins: Bins, shown: NDArray[np.bool_]) -> Json:
    codes = bin_codes(bins, shown, lanes.blocked_in)
    return {"width": codes.shape[1], "codes": base64.b64encode(codes.tobytes()).decode("ascii")}


def _bars(lanes: Lanes, spans: SomeSpans, shown: NDArray[np.bool_]) -> Json:
    is_shown = shown[spans.category]
    row, lane, category = spans.row[is_shown], spans.lane[is_shown], spans.category[is_shown]
    start, length = spans.start_ns[is_shown], (spans.end_ns - spans.start_ns)[is_shown]
    # Outer categories first, so that the inner ones are drawn on top of them.
    inner = [CATEGORIES.index(name) for name in (BLOCKED, *INSIDE)]
    order = np.argsort(np.isin(category, inner), kind="stable")
    row, category = row[order], category[order]
    activity, activities = pd.factorize(lanes.names_at(row, category, "activity"))
    tensor, tensors = pd.factorize(lanes.names_at(row, category, "tensor"))
    return {
        "id": row.tolist(),
        "lane": lane[order].tolist(),
        "kind": category.tolist(),
        "start": (start[order] - lanes.origin_ns).tolist(),
        "length": length[order].tolist(),
        "activity": activity.tolist(),
        "tensor": tensor.tolist(),
        "activities": [str(name) for name in activities],
        "tensors": [str(name) for name in tensors],
    }


def _marks(lanes: Lanes, rows: Sequence[Row], first: int, last: int) -> tuple[Json, str]:
    """Ready gradients and Horovod's instants where they are few; the text for the caption."""
    marks = lanes.marks
    view = marks.in_view(first, last)
    number = view.stop - view.start
    if number == 0 or number > MOST_BARS:
        text = f" ({units.count(number)} marks are not drawn: zoom in)" if number else ""
        return {"time": [], "lane": [], "ready": [], "name": []}, text
    is_drawn = np.isin(marks.lane[view], lanes_of(rows))
    ready = marks.is_ready[view][is_drawn]
    places = marks.row[view][is_drawn]
    names = np.empty(len(places), dtype=object)
    names[ready] = lanes.run.arrivals["tensor"].iloc[places[ready]].astype("object")
    names[~ready] = lanes.run.events["activity"].iloc[places[~ready]].astype("object")
    return {
        "time": (marks.time_ns[view][is_drawn] - lanes.origin_ns).tolist(),
        "lane": marks.lane[view][is_drawn].tolist(),
        "ready": ready.astype(int).tolist(),
        "name": [str(name) for name in names],
    }, f", and {units.count(number)} marks"


def _steps(lanes: Lanes, first: int, last: int) -> Json:
    """The steps in view, where at most 400 are in view."""
    steps = lanes.steps
    inside = np.flatnonzero((steps.end_ns > first) & (steps.start_ns < last))
    if len(inside) > _MOST_STEPS:
        inside = inside[:0]
    late, slowest = steps.has_straggler[inside], steps.slowest[inside]
    return {
        "number": steps.number[inside].tolist(),
        "start": (steps.start_ns[inside] - lanes.origin_ns).tolist(),
        "end": (steps.end_ns[inside] - lanes.origin_ns).tolist(),
        "warmup": steps.is_warmup[inside].astype(int).tolist(),
        "straggler": np.where(late, slowest, -1).tolist(),
    }


def _counters(
    lanes: Lanes, rows: Sequence[Row], executions: Executions, asked: Asked
) -> list[Json]:
    edges = lanes.origin_ns + lanes.axis.edges(asked.from_ns, asked.to_ns, _COUNTER_BINS)
    found: list[Json] = []
    for place, row in enumerate(rows):
        if row.kind not in (RowKind.BYTES, RowKind.BUSBW):
            continue
        is_bytes = row.kind is RowKind.BYTES
        values = executions.in_flight(edges) if is_bytes else executions.bus_bandwidth(edges)
        known = executions.bytes if is_bytes else executions.busbw
        missing = "" if (~np.isnan(known)).any() else _why_unknown(lanes, executions)
        most = float(np.nanmax(values)) if (~np.isnan(values)).any() else 0.0
        found.append(
            {
                "row": place,
                "values": [None if np.isnan(value) else float(f"{value:.3g}") for value in values],
                "most": most,
                "text": units.byte_size(most) if is_bytes else f"{most:.3g} GB/s",
                "missing": missing,
            }
        )
    return found


def _why_unknown(lanes: Lanes, executions: Executions) -> str:
    if not len(executions):
        return "no executions in this pass"
    return "sizes unknown: no recorder files" if not lanes.num_ranks else "sizes unknown"


def _bands(lanes: Lanes, rows: Sequence[Row], first: int, last: int) -> list[Json]:
    """Quantiles of own work over the ranks of a group by step, thinned where steps are many."""
    steps = lanes.steps
    inside = np.flatnonzero((steps.end_ns > first) & (steps.start_ns < last))
    every = max(1, -(-len(inside) // _MOST_POINTS))
    found: list[Json] = []
    for place, row in enumerate(rows):
        if row.kind is not RowKind.BANDS:
            continue
        quantiles = steps.bands(np.array(row.ranks, dtype=np.int64), inside)
        starts = np.arange(0, len(inside), every)
        found.append(
            {
                "row": place,
                "start": (steps.start_ns[inside[starts]] - lanes.origin_ns).tolist(),
                "end": (
                    steps.end_ns[inside[np.minimum(starts + every, len(inside)) - 1]]
                    - lanes.origin_ns
                ).tolist(),
                "quantiles": _thinned(quantiles, starts),
            }
        )
    return found


def _thinned(quantiles: Floats, starts: Ints) -> list[list[int]]:
    """Of several steps in one point: the lowest lower edges, the highest upper ones, the median."""
    if not len(starts):
        return []
    reduced = []
    for place, share in enumerate(QUANTILES):
        column = np.nan_to_num(quantiles[:, place])
        reduce = np.minimum if share < 0.5 else np.maximum if share > 0.5 else None
        if reduce is None:
            counts = np.diff(np.append(starts, len(column)))
            values = np.add.reduceat(column, starts) / counts
        else:
            values = reduce.reduceat(column, starts)
        reduced.append(values.astype(np.int64).tolist())
    return reduced
