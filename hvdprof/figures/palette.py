"""Colours, axes, legends and escaped names of every figure.

The hues are those of Okabe and Ito (Color Universal Design, 2008), which stay apart under the
common kinds of colour blindness.
"""

import html
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from hvdprof.model.causes import (
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    MODEL_ERROR,
    OUTSIDE_PHASES,
    PAUSE,
    STRAGGLER,
)
from hvdprof.plain_text import shortened

BUTTONS_REMOVED: tuple[str, ...] = ("sendChartToCloud", "select2d", "lasso2d", "autoScale2d")
"""Buttons of plotly.js that no figure has."""

PLOT_CONFIG: dict[str, object] = {
    "displaylogo": False,
    "responsive": True,
    # plotly.js uploads a figure, names of tensors and hosts included, from a button of its own.
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": list(BUTTONS_REMOVED),
}
"""plotly's settings of a figure, without a button that sends the figure anywhere."""


_BLACK = "#222222"
_ORANGE = "#e69f00"
_SKY_BLUE = "#56b4e9"
_GREEN = "#009e73"
_LIGHT_GREEN = "#8fd3b6"
_YELLOW = "#f0e442"
_BLUE = "#0072b2"
_VERMILION = "#d55e00"
_PURPLE = "#cc79a7"
_GREY = "#999999"
_BROWN = "#8c3b1f"

PART_COLOURS: dict[str, str] = {
    "data": _YELLOW,
    "forward": _SKY_BLUE,
    "backward": _BLUE,
    "blocked": _VERMILION,
    "before_update": _LIGHT_GREEN,
    "optimizer": _GREEN,
    "outside": _PURPLE,
    "evaluation": "#7a6a3a",
    "residual": _GREY,
}
"""Colour of each part of a step, those of ``hvdprof.model.causes``, and of an evaluation."""

HOROVOD_COLOURS: dict[str, str] = {
    "negotiation": _ORANGE,
    "operation": "#c9b8e8",
    "init": "#5c5c5c",
    "wait": "#b3b3b3",
    "queue": _GREY,
    "copy": _PURPLE,
    "transfer": _BROWN,
}
"""Colour of each kind of time in Horovod's timeline; the kinds are those of ``EXECUTIONS``."""

CAUSE_COLOURS: dict[str, str] = {
    STRAGGLER: _PURPLE,
    PAUSE: _BROWN,
    JITTER: _ORANGE,
    EXPOSED_TRANSFER: _VERMILION,
    INPUT_BOUND: _YELLOW,
    OUTSIDE_PHASES: _GREEN,
    COMPUTE_INFLATION: _BLUE,
    MODEL_ERROR: _SKY_BLUE,
    BASELINE_CREDIT: _GREY,
}
"""Colour of each cause of lost time; the causes are those of ``hvdprof.model.causes``."""

LINE_COLOURS: tuple[str, ...] = (_BLUE, _VERMILION, _GREEN, _PURPLE, _ORANGE, _SKY_BLUE)
"""Colours of the lines of configurations, in the order of use."""

LINE_SYMBOLS: tuple[str, ...] = ("circle", "square", "diamond", "triangle-up", "triangle-down")
"""Markers of these lines, so that no two lines differ by colour alone."""

LINE_DASHES: tuple[str, ...] = ("solid", "dash", "dot", "dashdot")
"""Dashes of lines without markers, for the same reason."""

WAIT_COLOURS: dict[str, str] = {
    "waited_ns": _SKY_BLUE,
    "caused_wait_ns": _VERMILION,
    "wait_as_last_ns": _PURPLE,
}
"""Colour of each measure of waiting; the measures are columns of ``CAUSED_WAIT``."""

COVER_COLOURS: dict[str, str] = {
    "overlapped_ns": _GREEN,
    "blocking_exposed_ns": _VERMILION,
    "other_exposed_ns": _ORANGE,
}
"""Colour of overlapped, blocking exposed, and other exposed communication."""

TRANSPORT_COLOURS: tuple[str, ...] = ("#e9e9e9", _GREEN, _SKY_BLUE, _BLUE, _ORANGE, _VERMILION)
"""Colour of each kind of connection of ``network.nccl_transport``, from none to the slowest."""

LATE_SCALE: tuple[tuple[float, str], ...] = ((0.0, _BLUE), (0.5, "#f7f7f7"), (1.0, _VERMILION))

"""From early over on time to late."""

NEUTRAL_COLOUR = _GREY
"""Colour of everything outside configurations: the ideal, and legends of markers."""

_AXIS = {
    "showline": True,
    "linecolor": "#c8c8c8",
    "gridcolor": "#ececec",
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": "#c8c8c8",
    "automargin": True,
}

_HEIGHT_OF_A_SENTENCE = 120

_DECADES_WITHOUT_TICKS_BETWEEN = 1.5
_FEWEST_TICKS = 2

_MOST_BINS = 60

_LONGEST = 120


def translucent(colour: str, opacity: float) -> str:
    """A colour ``#rrggbb`` as CSS with that opacity."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def empty_figure(height: int = 430) -> go.Figure:
    """A figure without data in the common layout: system font, light grid, legend below.

    Args:
        height: Height in pixels; the width is that of the page.
    """
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 8, "r": 12, "t": 16, "b": 8},
        font={"family": "system-ui, sans-serif", "size": 13, "color": _BLACK},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
        hoverlabel={"bgcolor": "white"},
        hovermode="closest",
        xaxis=_AXIS,
        yaxis=_AXIS,
    )
    return figure


def say(figure: go.Figure, sentence: str) -> go.Figure:
    """The figure, low, with a sentence in its middle instead of data."""
    hidden = {"visible": False}
    figure.update_layout(xaxis=hidden, yaxis=hidden, height=_HEIGHT_OF_A_SENTENCE)
    figure.add_annotation(text=sentence, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)
    return figure


def log_axis(values: ArrayLike, tickformat: str = "~g") -> dict[str, Any]:
    """Properties of a log axis for these values.

    Over several decades, only the decades have ticks, over fewer 1, 2 and 5; with less than two of
    these among the values, plotly chooses.

    Args:
        values: Values on the axis; only positive ones are used.
        tickformat: Format of the ticks, as in d3.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[known > 0]
    decades = np.log10(known.max() / known.min()) if len(known) else 0.0
    axis = {"type": "log", "tickformat": tickformat}
    if decades >= _DECADES_WITHOUT_TICKS_BETWEEN:
        return axis | {"dtick": 1}
    return axis | {"dtick": "D2"} if _num_ticks(known) >= _FEWEST_TICKS else axis


def _num_ticks(values: NDArray[np.float64]) -> int:
    """Number of 1, 2 and 5 times a power of ten within the range of the values."""
    if not len(values):
        return 0
    powers = 10.0 ** np.arange(np.floor(np.log10(values.min())), np.log10(values.max()) + 1)
    ticks = np.outer(powers, (1, 2, 5))
    return int(((ticks >= values.min()) & (ticks <= values.max())).sum())


def linear_edges(values: NDArray[np.float64], fewest: int = 1) -> NDArray[np.float64]:
    """Edges of bins of equal width over the values, by Freedman and Diaconis (1981), at most 60.

    Args:
        values: The values.
        fewest: So many bins at least, unless all values are equal.
    """
    if len(values) < 2 or values.min() == values.max():
        middle = float(values[0]) if len(values) else 0.0
        return np.array([middle - 0.5 * (abs(middle) or 1.0), middle + 0.5 * (abs(middle) or 1.0)])
    edges = np.histogram_bin_edges(values, bins="fd")
    number = int(np.clip(len(edges) - 1, fewest, _MOST_BINS))
    return np.linspace(values.min(), values.max(), number + 1)


def log_edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of bins of equal ratio over positive values, eight per decade."""
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    high = max(high, low + 1)
    return np.logspace(low, high, int(high - low) * 8 + 1)


def outline(
    values: NDArray[np.float64], edges: NDArray[np.float64], name: str, colour: str
) -> go.Scatter:
    """Number of values in each bin, as a stepped line with its area filled."""
    counts, _ = np.histogram(values, edges)
    return go.Scatter(
        x=edges,
        y=np.append(counts, 0),
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 1.5},
        fill="tozeroy",
        fillcolor=translucent(colour, 0.18),
        name=name,
        showlegend=bool(name),
        hovertemplate="from %{x:.3~g}: %{y}<extra></extra>",
    )


def band(places: pd.Series, low: pd.Series, high: pd.Series, fill: str, label: str) -> go.Scatter:
    """An area without outline, hover text or entry in the legend.

    Args:
        places: Where it is known along the x axis, ascending.
        low: Its lower end at each place.
        high: Its upper end at each place.
        fill: The colour, with its opacity.
        label: Name of the line that it belongs to: both are shown and hidden together.
    """
    return go.Scatter(
        x=[*places, *places[::-1]],
        y=[*high, *low[::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=fill,
        name=label,
        legendgroup=label,
        showlegend=False,
        hoverinfo="skip",
    )


def plain(name: object, longest: int = _LONGEST) -> str:
    """A name that plotly shows letter for letter, cut in the middle where it is long.

    Args:
        name: Name of a tensor, host, file or any other text from outside.
        longest: Most characters that are shown.
    """
    return html.escape(shortened(" ".join(str(name).split()), longest), quote=False)


def efficiency_bars(rows: pd.DataFrame, colour: str) -> dict[str, object]:
    """The intervals of efficiencies, for ``error_y``."""
    return {
        "type": "data",
        "symmetric": False,
        "array": (rows["efficiency_high"] - rows["efficiency"]).fillna(0),
        "arrayminus": (rows["efficiency"] - rows["efficiency_low"]).fillna(0),
        "color": colour,
        "thickness": 1.5,
        "width": 5,
    }
