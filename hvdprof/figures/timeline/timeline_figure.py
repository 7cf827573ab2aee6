"""A view of the lanes of a pass: single bars where they are few, otherwise bins.

Tested in ``tests/figures/timeline/test_timeline_lanes.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.palette import (
    HOROVOD_COLOURS,
    NEUTRAL_COLOUR,
    PART_COLOURS,
    empty_figure,
    say,
    translucent,
)
from hvdprof.figures.style.plain_text import plain
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, INSIDE, Lanes
from hvdprof.figures.timeline.viewport import Bins, Ints, SomeSpans

COLOURS: dict[str, str] = PART_COLOURS | HOROVOD_COLOURS
MOST_BARS = 2_000
"""Up to this many events are drawn one by one."""

_MOST_LANES = 512
_MOST_STEP_LINES = 80
_MOST_STEP_NAMES = 10
_SHADES = 12
_PALEST = 0.3
# Axis, legend, and the names of steps above.
_ROOM_AROUND = 170
_ROOM_ABOVE = 22
_LOWEST = 290
_NAMED_HEIGHT = 13
_MARKS = ((True, "ready", "gradient ready"), (False, "mark", "mark of Horovod"))
_ABOVE_LANES: dict[str, Any] = {
    "y": -0.5,
    "yanchor": "bottom",
    "showarrow": False,
    "font": {"size": 10},
}


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A figure and its caption; ``is_binned`` is true where events are not drawn one by one."""

    figure: go.Figure
    caption: str
    is_binned: bool


def timeline_view(lanes: Lanes, shown: Ints, first_ns: int, last_ns: int) -> TimelineView:
    """The lanes between two times, in milliseconds since the start of the pass.

    Args:
        lanes: The lanes of a pass.
        shown: Numbers of the lanes to show, from the top; at most the first 512.
        first_ns: Start of the view, ns since the start of the pass.
        last_ns: End of the view, after its start.
    """
    drawn = shown[:_MOST_LANES]
    first, last = lanes.origin_ns + first_ns, lanes.origin_ns + last_ns
    number = lanes.spans.count(first, last, drawn)
    figure = _frame(lanes, drawn, first_ns, last_ns)
    if not len(lanes.spans) or not len(drawn):
        say(figure, "No events in this view.")
        return TimelineView(figure, "No events in this view.", is_binned=False)
    is_binned = number > MOST_BARS
    if is_binned:
        _draw_bins(figure, lanes, lanes.spans.bins(first, last, drawn))
        how = f"binned, {units.count(number)} events"
    else:
        _draw_bars(figure, lanes, drawn, lanes.spans.within(first, last, drawn))
        how = f"{units.count(number)} events, each drawn"
    marks = _draw_marks(figure, lanes, drawn, first, last)
    _draw_steps(figure, lanes, len(drawn), first, last)
    caption = f"{how}{marks}; {units.milliseconds(last_ns - first_ns)} in view"
    if len(shown) > len(drawn):
        caption += f"; the first {units.count(len(drawn))} of {units.count(len(shown))} lanes"
    return TimelineView(figure, f"{caption}.", is_binned)


def _frame(lanes: Lanes, drawn: Ints, first_ns: int, last_ns: int) -> go.Figure:
    lane_height = _lane_height(len(drawn))
    figure = empty_figure(max(_LOWEST, round(lane_height * len(drawn)) + _ROOM_AROUND))
    every = max(1, int(np.ceil(_NAMED_HEIGHT / lane_height)))
    places = list(range(0, len(drawn), every))
    figure.update_layout(
        barmode="overlay",
        bargap=0,
        dragmode="zoom",
        margin={"t": _ROOM_ABOVE, "r": 8},
        # Two entries side by side on the narrowest screen.
        legend={"itemclick": False, "itemdoubleclick": False}
        | {"font": {"size": 11}, "entrywidth": 62},
    )
    figure.update_xaxes(
        range=[first_ns / 1e6, last_ns / 1e6],
        title_text="time in the pass, ms",
        # 2,000 ms rather than 2k ms.
        exponentformat="none",
        separatethousands=True,
    )
    figure.update_yaxes(
        range=[len(drawn) - 0.5, -0.5],
        fixedrange=True,
        showgrid=False,
        ticks="",
        tickvals=places,
        ticktext=[plain(lanes.names[drawn[place]], 22) for place in places],
    )
    return figure


def _lane_height(number: int) -> float:
    return float(np.clip(1_200 / max(number, 1), 4, 34))


def _draw_bins(figure: go.Figure, lanes: Lanes, bins: Bins) -> None:
    busy = bins.busy.copy()
    for inner, outer in INSIDE.items():
        busy[:, CATEGORIES.index(outer)] -= bins.busy[:, CATEGORIES.index(inner)]
    busy = busy.clip(min=0)
    most = busy.argmax(axis=1)
    total = busy.sum(axis=1).clip(max=1)
    shade = np.ceil(total * _SHADES).astype(np.uint8)
    codes = np.where(shade > 0, most * _SHADES + shade, 0).astype(np.uint8)
    edges_ms = (bins.edges_ns - lanes.origin_ns) / 1e6
    width = (edges_ms[-1] - edges_ms[0]) / (len(edges_ms) - 1)
    figure.add_trace(
        go.Heatmap(
            # plotly sends bytes as bytes: a byte a cell.
            z=codes,  # type: ignore[arg-type]
            x0=edges_ms[0] + width / 2,
            dx=width,
            zmin=0,
            zmax=len(CATEGORIES) * _SHADES,
            colorscale=_shades(),
            showscale=False,
            ygap=1 if len(codes) <= 64 else 0,
            hovertemplate="%{x:.6~g} ms<br>click for the content of this bin<extra></extra>",
        )
    )
    _draw_legend(figure, [CATEGORIES[number] for number in np.unique(most[total > 0])])


def _shades() -> list[tuple[float, str]]:
    number = len(CATEGORIES) * _SHADES
    scale: list[tuple[float, str]] = [(0.0, "rgba(0,0,0,0)")]
    for place, category in enumerate(CATEGORIES):
        for shade in range(1, _SHADES + 1):
            opacity = _PALEST + (1 - _PALEST) * shade / _SHADES
            colour = translucent(COLOURS[category], opacity)
            scale.append(((place * _SHADES + shade) / number, colour))
    return scale


def _draw_legend(figure: go.Figure, categories: list[str]) -> None:
    for category in categories:
        figure.add_trace(
            go.Bar(x=[np.nan], y=[np.nan], name=category, marker={"color": COLOURS[category]})
        )


def _draw_bars(figure: go.Figure, lanes: Lanes, drawn: Ints, spans: SomeSpans) -> None:
    place = np.full(len(lanes.names), -1)
    place[drawn] = np.arange(len(drawn))
    # Rows before values: only the names of the drawn rows are decoded.
    rows = lanes.run.events[["activity", "tensor"]].iloc[spans.row]
    activity, tensor = rows["activity"].to_numpy(), rows["tensor"].to_numpy()
    for number, category in enumerate(CATEGORIES):
        own = np.flatnonzero(spans.category == number)
        if not len(own):
            continue
        length = (spans.end_ns - spans.start_ns)[own]
        figure.add_trace(
            go.Bar(
                x=length / 1e6,
                y=place[spans.lane[own]],
                base=(spans.start_ns[own] - lanes.origin_ns) / 1e6,
                orientation="h",
                width=0.5 if category in INSIDE else 0.84,
                name=category,
                marker={"color": COLOURS[category], "line": {"width": 0}},
                # A list: the browser looks the clicked value up in it.
                customdata=spans.row[own].tolist(),
                hovertext=[
                    f"<b>{plain(activity[at])}</b> {units.milliseconds(dur)}"
                    + (f"<br>{plain(tensor[at], 60)}" if tensor[at] else "")
                    for at, dur in zip(own, length, strict=True)
                ],
                hoverinfo="text",
            )
        )


def _draw_marks(figure: go.Figure, lanes: Lanes, drawn: Ints, first: int, last: int) -> str:
    """Draw ready gradients and Horovod's instants where they are few; the text for the caption."""
    marks = lanes.marks
    view = marks.in_view(first, last)
    number = view.stop - view.start
    if number == 0:
        return ""
    if number > MOST_BARS:
        return f" ({units.count(number)} marks are not drawn: zoom in)"
    place = pd.Index(drawn).get_indexer(pd.Index(marks.lane[view]))
    for is_ready, name, meaning in _MARKS:
        own = np.flatnonzero((marks.is_ready[view] == is_ready) & (place >= 0))
        if not len(own):
            continue
        rows = marks.row[view][own]
        table, column = (
            (lanes.run.arrivals, "tensor") if is_ready else (lanes.run.events, "activity")
        )
        figure.add_trace(
            go.Scatter(
                x=(marks.time_ns[view][own] - lanes.origin_ns) / 1e6,
                y=place[own].astype(float) + 0.46,
                mode="markers",
                name=name,
                marker={
                    "symbol": "triangle-up" if is_ready else "line-ns-open",
                    "size": 7,
                    "color": NEUTRAL_COLOUR,
                },
                hovertext=[f"{meaning}: {plain(text, 60)}" for text in table[column].iloc[rows]],
                hoverinfo="text",
            )
        )
    return f", and {units.count(number)} marks"


def _draw_steps(figure: go.Figure, lanes: Lanes, num_lanes: int, first: int, last: int) -> None:
    steps = lanes.steps
    inside = np.flatnonzero((steps.end_ns > first) & (steps.start_ns < last))
    if not 0 < len(inside) <= _MOST_STEP_LINES:
        return
    start = (steps.start_ns[inside] - lanes.origin_ns) / 1e6
    lines = np.column_stack([start, start, np.full(len(start), np.nan)]).ravel()
    heights = np.tile([-0.5, num_lanes - 0.5, np.nan], len(start))
    figure.add_trace(
        go.Scatter(
            x=lines,
            y=heights,
            mode="lines",
            line={"color": NEUTRAL_COLOUR, "width": 1, "dash": "dot"},
            name="step",
            hoverinfo="skip",
        )
    )
    every = int(np.ceil(len(inside) / _MOST_STEP_NAMES))
    left = (first - lanes.origin_ns) / 1e6
    figure.add_annotation(x=0, xref="paper", xanchor="right", text="step", **_ABOVE_LANES)
    for at in inside[::every]:
        figure.add_annotation(
            x=max((steps.start_ns[at] - lanes.origin_ns) / 1e6, left),
            xanchor="left",
            text=str(steps.number[at]),
            **_ABOVE_LANES,
        )
