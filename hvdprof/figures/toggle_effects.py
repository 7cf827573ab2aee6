"""Effect of fp16, Adasum and DDP on throughput and on training loss."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.launch import bin_means, bin_starts
from hvdprof.figures.palette import (
    LINE_COLOURS,
    LINE_DASHES,
    NEUTRAL_COLOUR,
    empty_figure,
    plain,
    say,
)
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import DDP_ENGINE, ENGINE_TITLES, LAUNCH, setting_name, with_engine

_ROW_HEIGHT = 44
_ROOM = 120
_MOST_POINTS = 200
_LEAST_WIDTH = 0.25
_TOGGLES = ["engine", "compression", "reduction"]


def toggle_speedups(toggles: pd.DataFrame) -> go.Figure:
    """Speedup vs. toggle off, with its interval; 1 is no change.

    DDP counts as a toggle: its throughput divided by that of Horovod. Toggles that cannot be
    compared are omitted; a page lists them with the reason.
    """
    figure = empty_figure()
    shown = toggles[toggles["speedup"].notna().to_numpy()]
    if shown.empty:
        return say(figure, "No toggle was measured together with the same cell without it.")
    figure.update_layout(height=_ROOM + _ROW_HEIGHT * max(len(shown), 3))
    shown = shown.assign(
        label=[
            f"{plain(row['model'])} np={row['np']}, {_name(row)}"
            for row in shown.to_dict("records")
        ]
    )
    known = shown["speedup_low"].notna() & shown["speedup_high"].notna()
    figure.add_trace(
        go.Scatter(
            x=shown["speedup"],
            y=shown["label"],
            mode="markers",
            marker={"size": 10, "color": LINE_COLOURS[0]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": (shown["speedup_high"] - shown["speedup"]).where(known, 0),
                "arrayminus": (shown["speedup"] - shown["speedup_low"]).where(known, 0),
                "thickness": 1.5,
                "width": 5,
            },
            hovertext=[
                f"<b>{_name(row)}: {row['verdict']}</b><br>"
                + units.interval_of_unit(
                    row["speedup"], row["speedup_low"], row["speedup_high"], "ratio"
                )
                + f" of the throughput {_against(row)}"
                for row in shown.to_dict("records")
            ],
            hoverinfo="text",
            showlegend=False,
        )
    )
    figure.add_vline(x=1, line={"color": NEUTRAL_COLOUR, "dash": "dash", "width": 1.5})
    figure.update_xaxes(
        title_text="speedup vs. toggle off", tickformat=".0%", range=_range_of(shown)
    )
    figure.update_yaxes(autorange="reversed", ticks="")
    return figure


def _range_of(toggles: pd.DataFrame) -> list[float]:
    """Limits of the axis: all points, and as much of the intervals as keeps them legible.

    Two repeats can give an interval of thousands of percent; the edge of the figure cuts it, and
    the hover text shows it in full.
    """
    points = [*toggles["speedup"], 1.0]
    widest = max(max(points) - min(points), _LEAST_WIDTH)
    low = max(np.nanmin([*points, *toggles["speedup_low"]]), min(points) - 2 * widest, 0.0)
    high = min(np.nanmax([*points, *toggles["speedup_high"]]), max(points) + 2 * widest)
    margin = 0.05 * (high - low)
    return [float(max(low - margin, 0.0)), float(high + margin)]


def _name(row: FrameRow) -> str:
    if row["toggle"] == DDP_ENGINE:
        return f"{ENGINE_TITLES[DDP_ENGINE]} for Horovod"
    under = f"{ENGINE_TITLES[DDP_ENGINE]} " if row["engine"] == DDP_ENGINE else ""
    return f"{under}{row['toggle']}"


def _against(row: FrameRow) -> str:
    return "of Horovod" if row["toggle"] == DDP_ENGINE else "without it"


def learning_curves(steps: pd.DataFrame, segments: pd.DataFrame, model: str, np_: int) -> go.Figure:
    """Training loss over samples, one line per launch and one colour per configuration.

    Loss is the mean over ranks; above 200 steps, means over neighbouring steps are drawn. Launches
    are those in throughput mode of one model and number of ranks: all train on the same batches.
    """
    figure = empty_figure()
    cells = segments[
        (segments["model"] == model).to_numpy(dtype=bool)
        & (segments["size"] == np_).to_numpy(dtype=bool)
        & with_engine(segments)
        & (segments["mode"] == "throughput").to_numpy(dtype=bool)
    ]
    names = dict.fromkeys(LAUNCH, str)
    wanted = cells[[*LAUNCH, *_TOGGLES]].astype(str)
    of_cells = steps[steps["loss"].notna().to_numpy()].astype(names).merge(wanted, on=LAUNCH)
    if of_cells.empty:
        return say(figure, "No training loss is recorded for this cell.")
    shown: dict[str, dict[str, Any]] = {}
    for key, rows in of_cells.groupby([*_TOGGLES, *LAUNCH], sort=False):
        name = setting_name(*(str(part) for part in key[:3]))
        is_first = name not in shown
        looks = {
            "color": LINE_COLOURS[len(shown) % len(LINE_COLOURS)],
            "dash": LINE_DASHES[len(shown) % len(LINE_DASHES)],
        }
        line = shown.setdefault(name, looks)
        figure.add_trace(_curve(rows, name, line, in_legend=is_first))
    figure.update_xaxes(title_text="samples of all ranks", rangemode="tozero")
    figure.update_yaxes(title_text="training loss, mean over ranks")
    return figure


def _curve(
    rows: pd.DataFrame, name: str, line: Mapping[str, Any], *, in_legend: bool
) -> go.Scatter:
    by_step = rows.groupby("step").agg(loss=("loss", "mean"), samples=("samples", "sum"))
    seen = by_step["samples"].cumsum().to_numpy(dtype=np.float64)
    starts = bin_starts(len(by_step), _MOST_POINTS)
    return go.Scatter(
        x=bin_means(seen, starts),
        y=bin_means(by_step["loss"].to_numpy(dtype=np.float64), starts),
        mode="lines",
        name=name,
        legendgroup=name,
        showlegend=in_legend,
        line={**line, "width": 1.5},
        hovertemplate=f"{name}: %{{y:.4~g}} after %{{x:,.0f}} samples<extra></extra>",
    )
