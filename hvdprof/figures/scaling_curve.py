"""Scaling efficiency over the number of ranks."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.figures.palette import (
    LINE_COLOURS,
    LINE_SYMBOLS,
    NEUTRAL_COLOUR,
    band,
    efficiency_bars,
    empty_figure,
    plain,
    say,
    translucent,
)
from hvdprof.model.cell_key import (
    ENGINE_TITLES,
    HOROVOD_ENGINE,
    TORCH_ENGINE,
    setting_name,
    setting_of_row,
    with_engine,
)
from hvdprof.model.limits import is_wide

_BAND_OPACITY = 0.12
_LABEL_CHARACTERS = 40
_TOP = 1.2
"""Upper end of the axis; what lies beyond is drawn there, as an arrow."""

_ONE_SIZE = "One number of ranks alone: scaling efficiency requires a second one, or a baseline."

_MOST_LABELS = 4
"""More lines have a legend."""

_LABEL_HEIGHT = 17
_MARGINS = 90
"""Pixels of a line of text, and of everything above and below the axes."""

_BESIDE_POINT, _CHARACTER_WIDTH = 9, 7
"""Pixels from a point to its label, and of a character of it."""

_NARROW_PLOT, _MOST_ROOM = 320, 0.5
"""Pixels between the ends of the axis of a narrow figure; share of it that labels take at most."""

_NO_TOGGLE = f" {ENGINE_TITLES[HOROVOD_ENGINE]}"
_INK = "#5c5c5c"
_IDEAL_TOP = 1.17

_CONFIGURATION = ["model", "engine", "compression", "reduction"]


def scaling_curve(scaling: pd.DataFrame, height: int = 430) -> go.Figure:
    """Efficiency over np: one line per configuration, its 95 % interval as band, ideal at 100 %.

    The axis ends at 120 %, with arrows for what lies beyond. Points whose interval is wider than
    ±10 % are grey. Bands that overlap are not filled. Up to four lines carry their name; more have
    a legend.

    A model that was measured at one size alone, without a baseline of another, has no scaling, so
    it is not drawn; where that is all, a sentence says so.

    Oversubscribed cells are hollow markers apart from the line, because they are excluded from
    scaling statements. Plain torch is the baseline itself and has no line of its own.
    """
    figure = empty_figure(height)
    cells = scaling[with_engine(scaling)]
    is_alone = len(cells) > 0 and (cells["baseline"] == "").all()
    cells = cells[cells["efficiency"].notna()]
    if cells.empty:
        return say(figure, _ONE_SIZE if is_alone else "No efficiency was measured.")
    cells = cells[_has_scaling(cells)]
    if cells.empty:
        return say(figure, _ONE_SIZE)
    sizes = sorted(int(size) for size in cells["np"].unique())
    groups = [
        (tuple(str(name) for name in names), rows.sort_values("np"))
        for names, rows in cells.groupby(_CONFIGURATION, sort=False)
    ]
    has_labels = len(groups) <= _MOST_LABELS
    figure.add_trace(_ideal(sizes, in_legend=not has_labels))
    overlapping = _overlapping([rows for _, rows in groups])
    ends: list[_End] = []
    for index, (names, rows) in enumerate(groups):
        colour = LINE_COLOURS[index % len(LINE_COLOURS)]
        symbol = LINE_SYMBOLS[index % len(LINE_SYMBOLS)]
        label = f"{plain(names[0], _LABEL_CHARACTERS)} {setting_name(*names[1:])}"
        valid, crowded = rows[~rows["oversubscribed"]], rows[rows["oversubscribed"]]
        if index not in overlapping:
            figure.add_trace(_band(valid, label, colour))
        line = _line(valid, label, colour, symbol)
        line.showlegend = not has_labels and not valid.empty
        figure.add_trace(line)
        figure.add_trace(_hollow(crowded, label, colour, symbol))
        beyond = rows[(rows["efficiency_high"] > _TOP) | (rows["efficiency"] > _TOP)]
        if not beyond.empty:
            figure.add_trace(_arrows(beyond, label, colour))
        last = rows.iloc[-1]
        name = label.removesuffix(_NO_TOGGLE)
        ends.append(_End(name, colour, int(last["np"]), float(last["efficiency"])))
    labels = [end.label for end in ends] if has_labels else []
    if has_labels:
        _add_labels(figure, ends, height)
        _add_label(figure, "ideal", _INK, _log_range(sizes, labels)[1], _IDEAL_TOP, anchor="right")
    if is_wide(cells[~cells["oversubscribed"]]).any():
        wide = {"size": 9, "symbol": "circle"}
        figure.add_trace(_legend("95 % CI wider than ±10 % of the value", wide))
    if cells["oversubscribed"].any():
        hollow = {"size": 10, "symbol": "circle-open", "line": {"width": 2}}
        figure.add_trace(_legend("oversubscribed", hollow))
    figure.update_xaxes(
        title_text="ranks (np)", type="log", tickvals=sizes, range=_log_range(sizes, labels)
    )
    figure.update_yaxes(title_text="scaling efficiency", tickformat=".0%", range=[0, _TOP])
    return figure


@dataclass(frozen=True, slots=True)
class _End:
    """Where a line ends, for its name."""

    label: str
    colour: str
    np: int
    efficiency: float


def _overlapping(lines: Sequence[pd.DataFrame]) -> set[int]:
    """The places of the lines whose intervals overlap those of another at some size."""
    found: set[int] = set()
    for (one, rows), (other, others) in itertools.combinations(enumerate(lines), 2):
        both = rows[~rows["oversubscribed"]].merge(others[~others["oversubscribed"]], on="np")
        is_apart = (both["efficiency_low_x"] > both["efficiency_high_y"]) | (
            both["efficiency_low_y"] > both["efficiency_high_x"]
        )
        if not is_apart.all():
            found |= {one, other}
    return found


def _add_labels(figure: go.Figure, ends: Sequence[_End], height: int) -> None:
    """The names of the lines to the right of their last points, apart from each other."""
    gap = _TOP * _LABEL_HEIGHT / max(height - _MARGINS, _LABEL_HEIGHT)
    # The name of the ideal stands above its line.
    free = _IDEAL_TOP - gap
    for end in sorted(ends, key=lambda point: -point.efficiency):
        top = min(end.efficiency + gap / 2, free)
        free = top - gap
        _add_label(figure, end.label, end.colour, math.log10(end.np), max(top, gap))


def _add_label(
    figure: go.Figure, text: str, colour: str, x: float, top: float, anchor: str = "left"
) -> None:
    figure.add_annotation(
        text=text,
        x=x,
        y=top,
        xanchor=anchor,
        xshift=_BESIDE_POINT if anchor == "left" else 0,
        yanchor="top",
        showarrow=False,
        font={"color": colour, "size": 12},
    )


def _has_scaling(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the cells of models of which some cell refers to one of another size, or to torch."""
    refers = [
        baseline.startswith(TORCH_ENGINE) or not baseline.endswith(f" np={size}")
        for baseline, size in zip(cells["baseline"], cells["np"], strict=True)
    ]
    scaled = set(cells.loc[refers, "model"])
    return cells["model"].isin(scaled).to_numpy(dtype=bool)


def _ideal(sizes: list[int], *, in_legend: bool) -> go.Scatter:
    return go.Scatter(
        x=[sizes[0] / 2, sizes[-1] * 2],
        y=[1.0, 1.0],
        mode="lines",
        name="ideal",
        showlegend=in_legend,
        line={"color": NEUTRAL_COLOUR, "dash": "dash", "width": 1.5},
        hoverinfo="skip",
    )


def _band(rows: pd.DataFrame, label: str, colour: str) -> go.Scatter:
    known = rows[rows["efficiency_low"].notna() & rows["efficiency_high"].notna()]
    ends = known["efficiency_low"], known["efficiency_high"]
    return band(known["np"], *ends, translucent(colour, _BAND_OPACITY), label)


def _line(rows: pd.DataFrame, label: str, colour: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=rows["np"],
        y=rows["efficiency"],
        error_y=efficiency_bars(rows, colour),
        mode="lines+markers",
        name=label,
        legendgroup=label,
        line={"color": colour, "width": 2},
        marker={
            "size": 9,
            "symbol": symbol,
            "color": [NEUTRAL_COLOUR if wide else colour for wide in is_wide(rows)],
        },
        hovertext=_hover_texts(rows),
        hoverinfo="text",
    )


def _hollow(rows: pd.DataFrame, label: str, colour: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=rows["np"],
        y=rows["efficiency"],
        error_y=efficiency_bars(rows, translucent(colour, 0.5)),
        mode="markers",
        name=label,
        legendgroup=label,
        showlegend=False,
        marker={"size": 10, "symbol": f"{symbol}-open", "color": colour, "line": {"width": 2}},
        hovertext=_hover_texts(rows),
        hoverinfo="text",
    )


def _arrows(rows: pd.DataFrame, label: str, colour: str) -> go.Scatter:
    """Arrows at the upper end of the axis, for intervals and values that reach beyond it."""
    return go.Scatter(
        x=rows["np"],
        y=[_TOP] * len(rows),
        mode="markers",
        name=label,
        legendgroup=label,
        showlegend=False,
        marker={
            "size": 11,
            "symbol": "triangle-up",
            "color": [NEUTRAL_COLOUR if wide else colour for wide in is_wide(rows)],
        },
        hovertext=_hover_texts(rows),
        hoverinfo="text",
        cliponaxis=False,
    )


def _legend(name: str, marker: dict[str, object]) -> go.Scatter:
    """An entry of the legend without points."""
    return go.Scatter(
        x=[math.nan],
        y=[math.nan],
        mode="markers",
        name=name,
        marker={"color": NEUTRAL_COLOUR, **marker},
    )


def _hover_texts(rows: pd.DataFrame) -> list[str]:
    return [
        f"<b>{plain(row['model'])}, np={row['np']}</b> {setting_of_row(row)}<br>"
        f"efficiency {_interval(row)} against {row['baseline']}<br>"
        f"{units.rate(row['samples_per_s'])} samples/s<br>"
        f"blocked for {units.percent(row['blocked_share'])} of the step"
        + ("<br>oversubscribed: excluded from scaling statements" * bool(row["oversubscribed"]))
        for row in rows.to_dict(orient="records")
    ]


def _interval(row: dict[object, float]) -> str:
    return units.percent_interval(row["efficiency"], row["efficiency_low"], row["efficiency_high"])


def _log_range(sizes: list[int], labels: Sequence[str]) -> list[float]:
    """The ends of the axis, with room for labels to the right of the last points."""
    low, high = pd.Series([sizes[0], sizes[-1]]).map(math.log10)
    room = max(0.05 * (high - low), 0.06)
    longest = max((len(label) for label in labels), default=0)
    share = min((_BESIDE_POINT + _CHARACTER_WIDTH * longest) / _NARROW_PLOT, _MOST_ROOM)
    end = high + room if not labels else low - room + (high - low + room) / (1 - share)
    return [low - room, max(end, high + room)]
