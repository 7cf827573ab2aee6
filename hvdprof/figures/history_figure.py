"""A metric over a series of runs, with its change points."""

import plotly.graph_objects as go

from hvdprof.figures.palette import LINE_COLOURS, empty_figure, plain, say
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import History, Metric, size_text

_SCALES = {
    "ns": (1e-6, "ms"),
    "ratio": (100.0, "%"),
    "samples/s": (1.0, "samples/s"),
    "": (1.0, ""),
}

_LONGEST = 24
"""Characters of a run's name below the axis; the whole name is shown on hover."""


def history_figure(found: History) -> go.Figure:
    """One line per cell over the runs in order of time, with 95 % intervals.

    A run from which on the metric changed has a larger marker with the change beside it.

    Args:
        found: The series.
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
