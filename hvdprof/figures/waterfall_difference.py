"""Difference of two waterfalls, term by term, with its interval."""

import textwrap

import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.style.palette import CAUSE_COLOURS, empty_figure, say
from hvdprof.model.cause_names import cause_name
from hvdprof.model.frame_row import FrameRow

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
