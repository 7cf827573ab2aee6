"""Changes: additional time by part, between two waterfalls, and a metric over a series of runs."""

import textwrap

import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.palette import (
    CAUSE_COLOURS,
    LINE_COLOURS,
    PART_COLOURS,
    empty_figure,
    plain,
    say,
)
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import PART_NAMES
from hvdprof.model.cell_key import CELL_KEY, cell_label, setting_of_row
from hvdprof.model.results.comparison import History, Metric, size_text

_ROW_HEIGHT = 46
_ROOM_FOR_AXIS_AND_LEGEND = 200
_LEGEND_CHARACTERS = 32
_CELL = list(CELL_KEY)

_SCALES = {
    "ns": (1e-6, "ms"),
    "ratio": (100.0, "%"),
    "samples/s": (1.0, "samples/s"),
    "": (1.0, ""),
}

_LONGEST = 24
"""Characters of a run's name below the axis; the whole name is shown on hover."""


def losses_figure(losses: pd.DataFrame, scaling: pd.DataFrame) -> go.Figure:
    """Lost time by part as one stacked bar per cell, in points of efficiency.

    The parts of a cell sum to 100 % minus its efficiency; a part that takes less time than in the
    baseline is left of zero. Oversubscribed cells are pale and labelled.
    """
    crowded = scaling.loc[scaling["oversubscribed"], _CELL].drop_duplicates()
    rows = losses.merge(crowded.assign(oversubscribed=True), on=_CELL, how="left")
    rows["oversubscribed"] = rows["oversubscribed"].notna()
    rows["label"] = [_label(row) for row in rows.to_dict(orient="records")]
    cells = list(dict.fromkeys(rows["label"]))
    figure = empty_figure(_ROOM_FOR_AXIS_AND_LEGEND + _ROW_HEIGHT * max(len(cells), 3))
    if not cells:
        return say(figure, "No cell has a baseline to compare with.")
    for part, name in PART_NAMES.items():
        figure.add_trace(_bar(rows[rows["part"] == part], part, name))
    figure.update_layout(barmode="relative", bargap=0.35, legend={"traceorder": "normal"})
    figure.update_xaxes(title_text="share of the step", tickformat=".0%", zeroline=True)
    figure.update_xaxes(zerolinecolor="#222222", zerolinewidth=1)
    figure.update_yaxes(categoryorder="array", categoryarray=cells[::-1], ticks="")
    return figure


def _label(row: FrameRow) -> str:
    crowded = "<br><i>oversubscribed</i>" if row["oversubscribed"] else ""
    model = plain(row["model"], _LEGEND_CHARACTERS)
    return f"{model} np={row['np']}<br>{setting_of_row(row)}{crowded}"


def _bar(rows: pd.DataFrame, part: str, name: str) -> go.Bar:
    return go.Bar(
        x=rows["lost_share"],
        y=rows["label"],
        orientation="h",
        name="<br>".join(textwrap.wrap(name, _LEGEND_CHARACTERS)),
        marker={
            "color": PART_COLOURS[part],
            "opacity": [_PALE if pale else 1.0 for pale in rows["oversubscribed"]],
        },
        hovertext=[
            f"<b>{name}</b><br>{units.milliseconds(row['lost_ns'])} per step, "
            f"{units.percent(row['lost_share'])} of the step"
            for row in rows.to_dict(orient="records")
        ],
        hoverinfo="text",
    )


_PALE = 0.4
_LABEL_CHARACTERS = 17


def waterfall_difference(differences: pd.DataFrame) -> go.Figure:
    """One bar per term: additional time of the second cell (right) or less (left), with 95 % CI.

    Terms whose interval contains 0 are pale: the difference is not significant.

    Args:
        differences: WATERFALL_DIFF.
    """
    figure = empty_figure(400)
    if differences.empty:
        return say(figure, "One of the two cells has no recorded steps, so its loss has no causes.")
    names = [cause_name(row) for row in differences.to_dict("records")]
    labels = ["<br>".join(textwrap.wrap(name, _LABEL_CHARACTERS)) for name in names]
    rows = differences.assign(name=names, label=labels)
    known = rows["low_ns"].notna() & rows["high_ns"].notna()
    figure.add_trace(
        go.Bar(
            x=rows["difference_ns"] / 1e6,
            y=rows["label"],
            orientation="h",
            marker={
                "color": [CAUSE_COLOURS[term] for term in rows["term"]],
                "opacity": [1.0 if certain else _PALE for certain in rows["significant"]],
            },
            error_x={
                "type": "data",
                "symmetric": False,
                "array": ((rows["high_ns"] - rows["difference_ns"]) / 1e6).where(known, 0),
                "arrayminus": ((rows["difference_ns"] - rows["low_ns"]) / 1e6).where(known, 0),
                "thickness": 1,
                "width": 4,
                "color": "#666666",
            },
            hovertext=[_hover_text(row) for row in rows.to_dict("records")],
            hoverinfo="text",
            showlegend=False,
        )
    )
    figure.add_vline(x=0, line={"color": "#222222", "width": 1})
    figure.update_xaxes(title_text="second minus first, ms per step")
    figure.update_yaxes(autorange="reversed", ticks="")
    figure.update_layout(bargap=0.35)
    return figure


def _hover_text(row: FrameRow) -> str:
    difference = units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns")
    return (
        f"<b>{row['name']}</b><br>{difference} per step<br>"
        f"{units.milliseconds(row['one_ns'])} in the first, "
        f"{units.milliseconds(row['other_ns'])} in the second"
    )


def history_figure(found: History) -> go.Figure:
    """One line per cell over the runs in order of time, with 95 % intervals.

    A run from which on the metric changed has a larger marker with the change beside it.
    """
    figure = empty_figure()
    if found.rows.empty:
        return say(figure, "No cell is in two of the runs.")
    factor, unit = _SCALES[found.metric.unit]
    cells = [cell_label(row) for row in found.rows.to_dict("records")]
    for number, cell in enumerate(dict.fromkeys(cells)):
        rows = found.rows[[label == cell for label in cells]]
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        known = rows["low"].notna() & rows["high"].notna()
        figure.add_trace(
            go.Scatter(
                x=list(rows["run"]),
                y=rows["value"] * factor,
                name=plain(cell),
                mode="lines+markers+text",
                line={"color": colour, "width": 1},
                marker={"color": colour, "size": [12 if row else 6 for row in rows["is_change"]]},
                text=[_mark(row, found.metric) for row in rows.to_dict("records")],
                textposition="top center",
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": ((rows["high"] - rows["value"]) * factor).where(known, 0),
                    "arrayminus": ((rows["value"] - rows["low"]) * factor).where(known, 0),
                    "thickness": 1,
                    "width": 3,
                    "color": colour,
                },
                hovertext=[_hover(row) for row in rows.to_dict("records")],
                hoverinfo="text+y",
            )
        )
    figure.update_yaxes(title_text=f"{found.metric.title}, {unit}" if unit else found.metric.title)
    names = list(dict.fromkeys(found.rows.sort_values("time", kind="stable")["run"]))
    figure.update_xaxes(
        title_text="run",
        type="category",
        categoryorder="array",
        categoryarray=names,
        automargin=True,
        tickmode="array",
        tickvals=names,
        ticktext=[plain(name, _LONGEST) for name in names],
    )
    return figure


def _mark(row: FrameRow, metric: Metric) -> str:
    return size_text(float(row["change"]), metric) if row["is_change"] else ""


def _hover(row: FrameRow) -> str:
    return "<br>".join(plain(row[name]) for name in ("run", "time", "commit") if row[name])
