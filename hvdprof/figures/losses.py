"""Where the time went: more step time than the baseline, by part."""

import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.palette import PART_COLOURS, empty_figure, say
from hvdprof.model.parts import PART_NAMES

_ROW_HEIGHT = 46
_ROOM_FOR_AXIS_AND_LEGEND = 190


def losses_figure(losses: pd.DataFrame) -> go.Figure:
    """Lost time by part as one stacked bar a cell, in points of efficiency.

    The parts of a cell sum to what it lacks to 100 %; a part that takes less time than in the
    baseline reaches to the left of zero.

    Args:
        losses: The table LOSSES of ``hvdprof.model.tables``.
    """
    labels = (
        losses["model"]
        + " np="
        + losses["np"].astype(str)
        + "<br>"
        + losses["compression"]
        + " "
        + losses["reduction"]
    )
    cells = list(dict.fromkeys(labels))
    figure = empty_figure(_ROOM_FOR_AXIS_AND_LEGEND + _ROW_HEIGHT * max(len(cells), 3))
    if not cells:
        return say(figure, "No cell has a baseline to lose time against.")
    for part, name in PART_NAMES.items():
        rows = losses.assign(label=labels)[losses["part"] == part]
        figure.add_trace(_bar(rows, part, name))
    figure.update_layout(barmode="relative", bargap=0.35, legend={"traceorder": "normal"})
    figure.update_xaxes(
        title_text="lost by part, percent of the step", tickformat=".0%", zeroline=True
    )
    figure.update_xaxes(zerolinecolor="#222222", zerolinewidth=1)
    figure.update_yaxes(categoryorder="array", categoryarray=cells[::-1], ticks="")
    return figure


def _bar(rows: pd.DataFrame, part: str, name: str) -> go.Bar:
    return go.Bar(
        x=rows["lost_share"],
        y=rows["label"],
        orientation="h",
        name=name,
        marker={"color": PART_COLOURS[part]},
        hovertext=[
            f"<b>{name}</b><br>{units.milliseconds(row['lost_ns'])} a step, "
            f"{units.percent(row['lost_share'])} of it"
            for row in rows.to_dict(orient="records")
        ],
        hoverinfo="text",
    )
