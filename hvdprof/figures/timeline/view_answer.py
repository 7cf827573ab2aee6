"""What the steps in a window say, in one line: step time, blocked share, and the straggler."""

import numpy as np

from hvdprof import units
from hvdprof.figures.timeline.counters import Executions
from hvdprof.figures.timeline.rank_times import StepTimes
from hvdprof.figures.timeline.time_text import length_text
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, Lanes
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
    inside = executions.between(first_ns, last_ns)
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
