"""What happened in a selected range of time: a row per name and rank, and the executions in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.counters import Executions
from hvdprof.figures.timeline.time_text import length_text, place_text
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, Lanes
from hvdprof.figures.timeline.timeline_rows import Row, RowChoice, lanes_of

_MOST_ROWS = 400


@dataclass(frozen=True, slots=True)
class RangeRow:
    """One name on one rank; Horovod's events have rank 0, which writes them, and ``lane`` its work.

    ``sum_ns`` and ``share`` count the time inside of the range, ``share`` of its length; events
    that overlap (tensors of one execution, negotiations) each count. ``mean_ns`` and ``p95_ns`` are
    those of the whole events.
    """

    name: str
    lane: str
    rank: int
    count: int
    sum_ns: int
    mean_ns: float
    p95_ns: float
    share: float


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """The rows of a range, the longest sum first, and what else is known of it.

    ``num_left_out`` counts the rows beyond the first 400.
    """

    rows: tuple[RangeRow, ...]
    num_left_out: int
    facts: tuple[tuple[str, str], ...]


def range_facts(
    lanes: Lanes,
    rows: Sequence[Row],
    choice: RowChoice,
    executions: Executions,
    window: tuple[int, int],
) -> RangeFacts:
    """The table of a range.

    Args:
        lanes: The lanes of a pass.
        rows: The rows that are shown; hidden lanes are not counted.
        choice: Which categories are hidden.
        executions: The executions of the pass.
        window: Start and end, ns since the start of the pass.
    """
    first, last = lanes.origin_ns + window[0], lanes.origin_ns + max(window[1], window[0] + 1)
    spans = lanes.spans.within(first, last, np.unique(lanes_of(rows)))
    chosen = np.array(choice.is_drawn)[spans.category]
    row, lane = spans.row[chosen], spans.lane[chosen]
    start, end = spans.start_ns[chosen], spans.end_ns[chosen]
    names = lanes.run.events["activity"].iloc[row]
    frame = pd.DataFrame(
        {
            "name": names.array,
            "lane": lane,
            "inside": np.minimum(end, last) - np.maximum(start, first),
            "length": end - start,
        }
    )
    grouped = frame.groupby(["name", "lane"], observed=True)
    table = pd.DataFrame(
        {
            "count": grouped.size(),
            "sum": grouped["inside"].sum(),
            "mean": grouped["length"].mean(),
            "p95": grouped["length"].quantile(0.95),
        }
    ).sort_values("sum", ascending=False, kind="stable")
    found = tuple(
        RangeRow(
            name=str(name),
            lane=lanes.names[int(where)],
            rank=int(lanes.ranks[int(where)]) if int(where) < lanes.num_ranks else 0,
            count=int(count),
            sum_ns=int(total),
            mean_ns=float(mean),
            p95_ns=float(p95),
            share=float(total) / (last - first),
        )
        for (name, where), count, total, mean, p95 in table.head(_MOST_ROWS).itertuples(name=None)
    )
    return RangeFacts(
        rows=found,
        num_left_out=max(len(table) - _MOST_ROWS, 0),
        facts=_facts(lanes, executions, first, last),
    )


def _facts(
    lanes: Lanes, executions: Executions, first: int, last: int
) -> tuple[tuple[str, str], ...]:
    steps = lanes.steps
    num_steps = int(np.count_nonzero((steps.end_ns > first) & (steps.start_ns < last)))
    facts = [
        ("range", length_text(last - first)),
        ("starts at", place_text(first - lanes.origin_ns)),
        ("steps", units.count(num_steps)),
        *_waits(lanes, first, last),
    ]
    inside = executions.between(first, last)
    if len(inside):
        transfer = float(executions.transfer_ns[inside].sum())
        size = executions.bytes[inside]
        facts += [
            # A part of an execution has no payload of its own.
            ("executions", f"{units.count(len(inside))}, counted whole"),
            ("payload", units.byte_size(float(np.nansum(size)))),
            ("transfer", length_text(transfer)),
        ]
        busbw = executions.busbw[inside]
        known = ~np.isnan(busbw) & (executions.transfer_ns[inside] > 0)
        if known.any():
            weight = executions.transfer_ns[inside][known]
            mean = float((busbw[known] * weight).sum() / weight.sum())
            facts.append(("busbw", f"{mean:.3g} GB/s"))
    return tuple((label, text) for label, text in facts if text)


def _waits(lanes: Lanes, first: int, last: int) -> list[tuple[str, str]]:
    """Time in which ranks are blocked, and in which a negotiation is on."""
    everything = np.arange(len(lanes.names))
    busy = lanes.spans.bins(first, last, everything, most=1).busy[:, :, 0] * (last - first)
    blocked = busy[: lanes.num_ranks, CATEGORIES.index("blocked")]
    negotiated = busy[lanes.num_ranks :, CATEGORIES.index("negotiation")]
    found = []
    if lanes.num_ranks:
        text = f"{length_text(float(blocked.mean()))} per rank"
        longest = int(blocked.argmax())
        if lanes.num_ranks > 1:
            text += f", most {length_text(float(blocked[longest]))}, {lanes.names[longest]}"
        found.append(("blocked", text))
    if len(negotiated):
        found.append(("longest in negotiation", length_text(float(negotiated.max()))))
    return found
