"""Marks of the user in a timeline: the clicked event, and a measured span of time."""

import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.palette import NEUTRAL_COLOUR, translucent

_MEASURE_COLOUR = "#222222"
_MEASURE_OPACITY = 0.15


def mark_selected(figure: go.Figure, lane: int, start_ms: float, dur_ms: float) -> None:
    """Draw a frame around an event.

    Args:
        figure: A figure of ``timeline_view``.
        lane: Its position from the top, from 0.
        start_ms: Its start on the axis of the figure.
        dur_ms: Its length.
    """
    figure.add_shape(
        type="rect",
        x0=start_ms,
        x1=start_ms + dur_ms,
        y0=lane - 0.46,
        y1=lane + 0.46,
        line={"color": NEUTRAL_COLOUR, "width": 3},
    )


def let_measure(figure: go.Figure) -> None:
    """Let a drag measure a span of time instead of zooming; ``mark_measured`` then shows it."""
    figure.update_layout(
        dragmode="drawrect",
        newshape={
            "drawdirection": "horizontal",
            "line": {"width": 1, "color": _MEASURE_COLOUR},
            "fillcolor": translucent(_MEASURE_COLOUR, _MEASURE_OPACITY),
        },
    )


def mark_measured(figure: go.Figure, first_ms: float, last_ms: float) -> None:
    """Shade a span of time from top to bottom and label its length.

    Args:
        figure: A figure of ``timeline_view``.
        first_ms: Its start on the axis of the figure.
        last_ms: Its end.
    """
    figure.add_vrect(
        x0=first_ms,
        x1=last_ms,
        line={"width": 1, "color": _MEASURE_COLOUR},
        fillcolor=translucent(_MEASURE_COLOUR, _MEASURE_OPACITY),
        annotation={
            "text": f"<b>{units.milliseconds(1e6 * (last_ms - first_ms))}</b>",
            "bgcolor": "white",
            "bordercolor": _MEASURE_COLOUR,
        },
        annotation_position="bottom left",
    )
