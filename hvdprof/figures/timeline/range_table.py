"""What happened in a window or a selected range of time: in one line, and row by row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.figures.timeline.counters import Executions
from hvdprof.figures.timeline.rank_times import StepTimes
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, Lanes
from hvdprof.figures.timeline.timeline_rows import Row, RowChoice, lanes_of
from hvdprof.figures.timeline.turn_axis import length_text, place_text
from hvdprof.figures.timeline.viewport import Ints


def view_answer(lanes: Lanes, executions: Executions, first_ns: int, last_ns: int) -> str:
    """The line about the steps that lie at least half in a window.

    Warm-up counts only where nothing else is in view. Without ranks (steps inferred from a
    timeline) it names the executions in view and the longest negotiation instead of blocked time
    and stragglers.

    Args:
        lanes: The lanes of a pass.
        executions: Its executions.
        first_ns: Start of the window, on the clock of the tables.
        last_ns: Its end.
    """
    steps = lanes.steps
    near = np.flatnonzero((steps.end_ns > first_ns) & (steps.start_ns < last_ns))
    inside = np.minimum(steps.end_ns[near], last_ns) - np.maximum(steps.start_ns[near], first_ns)
    whole = near[2 * inside >= steps.length_ns[near]]
    work = ""
    if not lanes.num_ranks:
        work = _work(executions, first_ns, last_ns) + _negotiation(lanes, first_ns, last_ns)
    if not len(near):
        return f"No step in view{work}."
    if not len(whole):
        return f"Part of {_about_one(steps, int(near[inside.argmax()]))}{work}."
    steady = whole[~steps.is_warmup[whole]]
    left_out = 0 < len(steady) < len(whole)
    shown = steady if len(steady) else whole
    if len(np.unique(steps.segment[shown])) > 1:
        return f"{_about_segments(steps, shown)}{work}."
    if len(shown) == 1:
        text = _about_one(steps, int(shown[0]))
        return f"{text[0].upper()}{text[1:]}{work}."
    kind = "steady steps" if left_out else "steps" if len(steady) else "warm-up steps"
    usual = length_text(float(np.median(steps.length_ns[shown])))
    return (
        f"{units.count(len(shown))} {kind} in view: median {usual}"
        f"{_blocked(steps, shown)}{_stragglers(steps, shown)}{work}."
    )


def _about_one(steps: StepTimes, place: int) -> str:
    one = np.array([place])
    kind = "warm-up step" if steps.is_warmup[place] else "step"
    text = f"{kind} {steps.number[place]}: {length_text(int(steps.length_ns[place]))}"
    text += _blocked(steps, one)
    if np.isnan(steps.excess_ns[place]):
        return text
    if not steps.has_straggler[place]:
        return f"{text}; no straggler"
    others = "the other rank" if len(steps.ranks) == 2 else "the median of the others"
    excess = length_text(float(steps.excess_ns[place]))
    return f"{text}; straggler rank {steps.slowest[place]}, {excess} behind {others}"


def _about_segments(steps: StepTimes, places: Ints) -> str:
    """Shortest and longest median step over the segments: one median of all would mean nothing."""
    segments = np.unique(steps.segment[places])
    usual = [
        float(np.median(steps.length_ns[places][steps.segment[places] == s])) for s in segments
    ]
    low, high = int(np.argmin(usual)), int(np.argmax(usual))
    ends = [f"{length_text(usual[at])} ({steps.segments[segments[at]]})" for at in (low, high)]
    return (
        f"{units.count(len(segments))} segments in view: median step {ends[0]} to {ends[1]}"
        f"{_stragglers(steps, places)}"
    )


def _blocked(steps: StepTimes, places: Ints) -> str:
    spent = int(steps.spent_ns[places].sum())
    if not spent:
        return ""
    share = int(steps.blocked_ns[places].sum()) / spent
    return f", ranks blocked {units.percent(share)}"


def _stragglers(steps: StepTimes, places: Ints) -> str:
    if np.isnan(steps.excess_ns[places]).all():
        return ""
    late = places[steps.has_straggler[places]]
    if not len(late):
        return "; no straggler"
    ranks, times = np.unique(steps.slowest[late], return_counts=True)
    who = f"{'most often ' if len(ranks) > 1 else ''}rank {ranks[times.argmax()]}"
    return f"; straggler in {units.count(len(late))} of {units.count(len(places))}: {who}"


def _work(executions: Executions, first_ns: int, last_ns: int) -> str:
    """What the executions that lie at least half in a window send, as ``view_answer`` has steps."""
    near = executions.between(first_ns, last_ns)
    start, end = executions.start_ns[near], executions.end_ns[near]
    seen = np.minimum(end, last_ns) - np.maximum(start, first_ns)
    inside = near[2 * seen >= end - start]
    if not len(inside):
        return "; no executions"
    size = float(np.nansum(executions.bytes[inside]))
    payload = f", {units.byte_size(size)}" if size else ""
    transfer = length_text(float(np.nansum(executions.transfer_ns[inside])))
    return f"; {units.counted(len(inside), 'execution')}{payload}, transfer {transfer}"


def _negotiation(lanes: Lanes, first_ns: int, last_ns: int) -> str:
    every = np.arange(len(lanes.names), dtype=np.int64)
    row = lanes.spans.longest(first_ns, last_ns, every, CATEGORIES.index("negotiation"))
    if row is None:
        return ""
    event = lanes.run.events.iloc[row]
    length = int(event["dur_ns"])
    if length < 0:
        waited = length_text(lanes.spans.last_ns - int(event["start_ns"]))
        return f"; negotiation without an end after {waited} ({event['tensor']})"
    return f"; longest negotiation {length_text(length)} ({event['tensor']})"


_MOST_ROWS = 400


@dataclass(frozen=True, slots=True)
class RangeRow:
    """One name on one rank; Horovod's events have rank 0, which writes them, and ``lane`` its work.

    ``sum_ns`` and ``share`` count the time inside of the range, ``share`` of its length without
    turns of hvdprof; events that overlap (tensors of one execution, negotiations) each count.
    ``mean_ns`` and ``p95_ns`` are those of the whole events.
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
    frame = pd.DataFrame(
        {
            "name": lanes.names_at(row, spans.category[chosen], "activity"),
            "lane": lane,
            "inside": np.minimum(end, last) - np.maximum(start, first),
            "length": end - start,
        }
    )
    own = last - first - lanes.axis.turn_ns(first - lanes.origin_ns, last - lanes.origin_ns)
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
            share=float(total) / (own or last - first),
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
        ("range", lanes.axis.text(first - lanes.origin_ns, last - lanes.origin_ns)),
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
