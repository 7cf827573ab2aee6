"""A timeline as SVG, which needs no script: three steps of the finding on every rank."""

from dataclasses import dataclass
from html import escape

import numpy as np

from hvdprof.figures.palette import PART_COLOURS
from hvdprof.figures.timeline.derived_spans import NAMES
from hvdprof.figures.timeline.event_details import timeline_passes
from hvdprof.figures.timeline.event_search import opening_of
from hvdprof.figures.timeline.timeline_lanes import BLOCKED, CATEGORIES, Lanes, pass_lanes
from hvdprof.figures.timeline.timeline_rows import MOST_UNFOLDED
from hvdprof.figures.timeline.turn_axis import length_text
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.run import RunAnalysis

_WIDTH, _GUTTER, _ROW, _HEAD = 1_100, 110, 24, 20
_MOST_INTERVALS = 2_500
_LEAST_PIXELS = 0.3
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Still:
    """The drawing, a sentence on what it shows, and name and colour of each phase in it."""

    svg: str
    about: str
    legend: tuple[tuple[str, str], ...]


def still_timeline(analysis: RunAnalysis) -> Still | None:
    """The steps at which the timeline opens; ``None`` where no rank recorded steps or phases."""
    run = analysis.run
    passes = timeline_passes(run) if len(run.steps) else {}
    if not passes:
        return None
    lanes = pass_lanes(run, next(iter(passes)))
    opening = opening_of(analysis, lanes)
    if not lanes.num_ranks or not opening.steps:
        return None
    named = [(int(rank), f"rank {rank}") for rank in lanes.ranks]
    if len(named) > MOST_UNFOLDED:
        extremes = lanes.steps.extremes(lanes.ranks)
        named = [(rank, f"rank {rank} ({word})") for rank, word in extremes]
    view = _View(lanes, opening.first_ns + lanes.origin_ns, opening.last_ns + lanes.origin_ns)
    first, last = view.first, view.last
    rows = np.searchsorted(lanes.ranks, [rank for rank, _ in named])
    if not 0 < lanes.spans.count(first, last, rows) <= _MOST_INTERVALS:
        return None
    boxes, used = _boxes(view, rows)
    names = "".join(
        f'<text x="0" y="{_HEAD + _ROW * at + _ROW // 2}">{escape(name)}</text>'
        for at, (_, name) in enumerate(named)
    )
    height = _HEAD + _ROW * len(named) + 2
    axis = _turns(view, height) + _axis(view, height)
    # A line at the begin of each step.
    starts = view.lanes.steps.start_ns
    inside = starts[(starts > view.first) & (starts < view.last)]
    steps = "".join(
        f'<path d="M{view.x(int(start))} {_HEAD}V{height}" stroke="currentColor" stroke-width="1"/>'
        for start in inside
    )
    svg = (
        f'<svg class="still" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Phases of the ranks in three steps">{names}{boxes}{steps}{axis}</svg>'
    )
    what = f"{opening.finding}: a typical step" if opening.finding else "A steady step"
    legend = tuple((NAMES.get(name, name), PART_COLOURS[name]) for name in used)
    return Still(svg, f"{what}, and the time of one step on either side.", legend)


@dataclass(frozen=True, slots=True)
class _View:
    """What is drawn of the lanes: from ``first`` to ``last``, on the clock of the tables."""

    lanes: Lanes
    first: int
    last: int

    def x(self, time: int) -> float:
        """Pixels from the left of a time, or of the end of the view that is nearer."""
        times = [self.first, min(max(time, self.first), self.last), self.last]
        low, place, high = self.lanes.axis.places([one - self.lanes.origin_ns for one in times])
        return round(float(_GUTTER + (place - low) / (high - low) * (_WIDTH - _GUTTER)), 2)


def _turns(view: _View, height: int) -> str:
    """The turns of hvdprof, which take less room than time."""
    parts = []
    for begin, end, _ in view.lanes.axis.turns:
        left, right = (view.x(view.lanes.origin_ns + time) for time in (begin, end))
        if right > left:
            parts.append(
                f'<rect x="{left}" y="{_HEAD}" width="{round(right - left, 2)}" '
                f'height="{height - _HEAD}" fill="#888" opacity=".25">'
                f"<title>hvdprof's turn, {length_text(end - begin)}</title></rect>"
            )
    return "".join(parts)


def _boxes(view: _View, rows: Ints) -> tuple[str, list[str]]:
    """The intervals of the rows, blocked time on top and lower, and their categories."""
    lanes = view.lanes
    spans = lanes.spans.within(view.first, view.last, rows)
    at = {int(lane): place for place, lane in enumerate(rows)}
    blocked = CATEGORIES.index(BLOCKED)
    parts = []
    for place in np.argsort(spans.category == blocked, kind="stable").tolist():
        start, end = int(spans.start_ns[place]), int(spans.end_ns[place])
        left, right = view.x(start), view.x(end)
        if right - left < _LEAST_PIXELS:
            continue
        category = CATEGORIES[int(spans.category[place])]
        inset = 7 if category == BLOCKED else 2
        top = _HEAD + _ROW * at[int(spans.lane[place])] + inset
        length = lanes.axis.text(start - lanes.origin_ns, end - lanes.origin_ns)
        title = f"{NAMES.get(category, category)}, {length}"
        parts.append(
            f'<rect x="{left}" y="{top}" width="{round(right - left, 2)}" '
            f'height="{_ROW - 2 * inset}" fill="{PART_COLOURS[category]}">'
            f"<title>{title}</title></rect>"
        )
    used = [CATEGORIES[number] for number in np.unique(spans.category).tolist()]
    return "".join(parts), used


def _axis(view: _View, height: int) -> str:
    """Ticks from the left end, at round lengths; none in a turn of hvdprof."""
    axis, first = view.lanes.axis, view.first - view.lanes.origin_ns
    low, high = axis.window(first, view.last - view.lanes.origin_ns)
    raw = (high - low) / _TICKS
    power = 10 ** int(np.floor(np.log10(raw)))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= raw)
    parts = []
    times = np.arange(0, view.last - view.first, int(step))
    for time in times[~axis.in_turn(first + times)].tolist():
        x = view.x(view.first + time)
        parts.append(
            f'<text x="{x + 3}" y="{_HEAD // 2}">+{length_text(time)}</text>'
            f'<path d="M{x} 2V{height}" stroke="#888" stroke-width=".5" stroke-dasharray="1 4"/>'
        )
    return "".join(parts)
