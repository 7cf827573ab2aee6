"""A timeline as SVG, which needs no script: three steps of the finding on every rank.

Tested in ``tests/report/document/test_html_report.py``.
"""

from dataclasses import dataclass
from html import escape

import numpy as np

from hvdprof.figures.style.palette import PART_COLOURS
from hvdprof.figures.timeline.derived_spans import NAMES
from hvdprof.figures.timeline.event_details import timeline_passes
from hvdprof.figures.timeline.opening import opening_of
from hvdprof.figures.timeline.time_text import length_text
from hvdprof.figures.timeline.timeline_lanes import BLOCKED, CATEGORIES, Lanes, pass_lanes
from hvdprof.figures.timeline.timeline_rows import MOST_UNFOLDED
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
    """The steps at which the timeline opens; ``None`` where no rank recorded steps or phases.

    Args:
        analysis: The finished analysis.
    """
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
    first, last = opening.first_ns + lanes.origin_ns, opening.last_ns + lanes.origin_ns
    rows = np.searchsorted(lanes.ranks, [rank for rank, _ in named])
    if not 0 < lanes.spans.count(first, last, rows) <= _MOST_INTERVALS:
        return None
    boxes, used = _boxes(lanes, rows, first, last)
    names = "".join(
        f'<text x="0" y="{_HEAD + _ROW * at + _ROW // 2}">{escape(name)}</text>'
        for at, (_, name) in enumerate(named)
    )
    height = _HEAD + _ROW * len(named) + 2
    axis = _axis(last - first, height)
    steps = _steps(lanes, first, last, height)
    svg = (
        f'<svg class="still" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Phases of the ranks in three steps">{names}{boxes}{steps}{axis}</svg>'
    )
    what = f"{opening.finding}: a typical step" if opening.finding else "A steady step"
    legend = tuple((NAMES.get(name, name), PART_COLOURS[name]) for name in used)
    return Still(svg, f"{what}, and the time of one step on either side.", legend)


def _x(share: float) -> float:
    return round(_GUTTER + share * (_WIDTH - _GUTTER), 2)


def _boxes(lanes: Lanes, rows: Ints, first: int, last: int) -> tuple[str, list[str]]:
    """The intervals of the rows, blocked time on top and lower, and their categories."""
    spans = lanes.spans.within(first, last, rows)
    at = {int(lane): place for place, lane in enumerate(rows)}
    blocked = CATEGORIES.index(BLOCKED)
    parts = []
    for place in np.argsort(spans.category == blocked, kind="stable").tolist():
        start, end = int(spans.start_ns[place]), int(spans.end_ns[place])
        left, right = (
            _x((min(max(time, first), last) - first) / (last - first)) for time in (start, end)
        )
        if right - left < _LEAST_PIXELS:
            continue
        category = CATEGORIES[int(spans.category[place])]
        inset = 7 if category == BLOCKED else 2
        top = _HEAD + _ROW * at[int(spans.lane[place])] + inset
        title = f"{NAMES.get(category, category)}, {length_text(end - start)}"
        parts.append(
            f'<rect x="{left}" y="{top}" width="{round(right - left, 2)}" '
            f'height="{_ROW - 2 * inset}" fill="{PART_COLOURS[category]}">'
            f"<title>{title}</title></rect>"
        )
    used = [CATEGORIES[number] for number in np.unique(spans.category).tolist()]
    return "".join(parts), used


def _axis(length_ns: int, height: int) -> str:
    """Ticks from the left end, at round lengths."""
    raw = length_ns / _TICKS
    power = 10 ** int(np.floor(np.log10(raw)))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= raw)
    parts = []
    for time in range(0, length_ns, int(step)):
        x = _x(time / length_ns)
        parts.append(
            f'<text x="{x + 3}" y="{_HEAD // 2}">+{length_text(time)}</text>'
            f'<path d="M{x} 2V{height}" stroke="#888" stroke-width=".5" stroke-dasharray="1 4"/>'
        )
    return "".join(parts)


def _steps(lanes: Lanes, first: int, last: int, height: int) -> str:
    """A line at the begin of each step."""
    starts = lanes.steps.start_ns
    inside = starts[(starts > first) & (starts < last)]
    return "".join(
        f'<path d="M{_x((int(start) - first) / (last - first))} {_HEAD}V{height}" '
        'stroke="currentColor" stroke-width="1"/>'
        for start in inside
    )
