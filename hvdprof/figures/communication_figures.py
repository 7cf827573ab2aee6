"""Communication within steps: overlap, cycles of Horovod's loop, fusion, negotiation."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.launch import bin_means, bin_starts, largest_of_each
from hvdprof.figures.palette import (
    COVER_COLOURS,
    LINE_COLOURS,
    NEUTRAL_COLOUR,
    empty_figure,
    log_axis,
    log_edges,
    outline,
    plain,
    say,
    translucent,
)
from hvdprof.model.cell_key import LAUNCH


def negotiation_times(uses: pd.DataFrame) -> go.Figure:
    """Distribution of negotiation times, one line per collective, without warm-up.

    Horovod stamps whole microseconds; shorter times are shown as one.

    Args:
        uses: Rows of TENSOR_USES.
    """
    figure = empty_figure(380)
    steady = uses[~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy()]
    if steady.empty:
        return say(figure, "No timeline of this run holds a negotiation.")
    times = steady["negotiation_ns"].to_numpy(dtype=np.float64) / 1e6
    times = np.maximum(times, _SHORTEST_MS)
    edges = log_edges(times)
    collectives = steady["collective"]
    for place, name in enumerate(sorted(collectives.unique())):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        of_name = times[(collectives == name).to_numpy(dtype=bool)]
        figure.add_trace(outline(of_name, edges, plain(name), colour))
    figure.update_xaxes(title_text="negotiation per tensor, ms", **log_axis(edges))
    figure.update_yaxes(title_text="tensors", rangemode="tozero")
    return figure


def longest_negotiations(uses: pd.DataFrame, most: int = 10) -> pd.DataFrame:
    """The longest negotiation of each step of a launch, longest first, without warm-up.

    Columns: pass_id, segment, step, tensor, negotiation_ns.
    """
    columns = ["pass_id", "segment", "step", "tensor", "negotiation_ns"]
    steady = uses.loc[
        ~uses["warmup"].to_numpy(dtype=bool) & uses["negotiation_ns"].notna().to_numpy(), columns
    ]
    return largest_of_each(steady, "negotiation_ns", ["pass_id", "segment", "step"], most)


_HEIGHT = 360
_WIDE = 20


def fusion_fill(collectives: pd.DataFrame) -> go.Figure:
    """Distribution of payload divided by fusion threshold, one line per collective, no warm-up."""
    figure = empty_figure(_HEIGHT)
    steady = _steady(collectives)
    steady = steady[steady["fill"] > 0]
    if steady.empty:
        return say(figure, "The size of the fusion buffer or of the payloads is not known here.")
    edges = log_edges(100 * steady["fill"].to_numpy(dtype=np.float64))
    for place, (name, rows) in enumerate(steady.astype({"collective": str}).groupby("collective")):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        figure.add_trace(outline(100 * rows["fill"].to_numpy(), edges, plain(name), colour))
    figure.add_vline(x=100, line={"dash": "dash", "color": "#666666", "width": 1})
    figure.update_xaxes(title_text="fill of the fusion buffer, %", **log_axis([*edges, 100]))
    figure.update_yaxes(title_text="executions", rangemode="tozero")
    return figure


def messages_per_step(collectives: pd.DataFrame) -> go.Figure:
    """Executed collectives in each step, and the tensors in them.

    Above 500 steps, means over neighbouring steps are drawn, and the axis says so.
    """
    figure = empty_figure(_HEIGHT)
    steady = _steady(collectives)
    steady = steady[steady["step"] >= 0]
    if steady.empty:
        return say(figure, "No collective of this launch belongs to a known step.")
    by_step = steady.groupby("step").agg(
        executions=("fusion_id", "size"), tensors=("num_tensors", "sum")
    )
    starts = bin_starts(len(by_step), _MOST_STEPS)
    for place, (column, name) in enumerate(
        {"executions": "collectives executed", "tensors": "tensors in them"}.items()
    ):
        values = by_step[column].to_numpy(dtype=np.float64)
        figure.add_trace(
            go.Scatter(
                x=by_step.index.to_numpy()[starts],
                y=bin_means(values, starts),
                mode="lines+markers",
                marker={"size": 4},
                name=f"{name}, mean {units.rate(float(values.mean()))} per step",
                line={"color": LINE_COLOURS[place], "width": 1.5},
                hovertemplate="step %{x}: %{y:.4~g}<extra></extra>",
            )
        )
    binned = f" (means of {len(by_step)} steps in {len(starts)})" * (len(starts) < len(by_step))
    figure.update_xaxes(title_text=f"step{binned}")
    is_wide = by_step["tensors"].max() > _WIDE * by_step["executions"].min()
    shape = log_axis(by_step.to_numpy()) if is_wide else {"rangemode": "tozero"}
    figure.update_yaxes(title_text="number per step", **shape)
    return figure


def _steady(collectives: pd.DataFrame) -> pd.DataFrame:
    return collectives[~collectives["warmup"].to_numpy(dtype=bool)]


_MARK = "CYCLE_START"
_SHORTEST_MS = 1e-3


def cycle_times(events: pd.DataFrame) -> go.Figure:
    """The distribution of the time between two cycle marks of a timeline.

    Args:
        events: Rows of EVENTS; only a timeline written with HOROVOD_TIMELINE_MARK_CYCLES=1 holds
            the marks.
    """
    figure = empty_figure(360)
    marks = events[(events["activity"] == _MARK).to_numpy(dtype=bool)]
    names = dict.fromkeys(LAUNCH, str)
    lengths = marks.astype(names).groupby(LAUNCH, sort=False)["start_ns"].diff()
    times = np.maximum(lengths.dropna().to_numpy(dtype=np.float64) / 1e6, _SHORTEST_MS)
    if not len(times):
        return say(
            figure,
            "The timeline holds no cycle marks.<br>Set HOROVOD_TIMELINE_MARK_CYCLES=1 to record "
            "them.",
        )
    edges = log_edges(times)
    figure.add_trace(outline(times, edges, "", NEUTRAL_COLOUR))
    figure.update_xaxes(title_text="cycle length, ms", **log_axis(edges))
    figure.update_yaxes(title_text="cycles", rangemode="tozero")
    return figure


def has_cycles(events: pd.DataFrame) -> bool:
    """Whether there are marks of cycles in rows of EVENTS."""
    return bool((events["activity"] == _MARK).any())


_MOST_STEPS = 500

_NAMES = {
    "overlapped_ns": "overlapped by computation",
    "blocking_exposed_ns": "blocking exposed communication",
    "other_exposed_ns": "other exposed communication (in no phase)",
}


def overlap_per_step(overlap: pd.DataFrame) -> go.Figure:
    """Communication time in each step, stacked by the state of the rank.

    Means over ranks; above 500 steps, means over neighbouring steps too, and the axis says so.
    """
    figure = empty_figure(400)
    if overlap.empty:
        return say(figure, "Overlap requires recorder files and a timeline of the same launch.")
    columns = ["communication_ns", "overlapped_ns", "exposed_ns", "blocking_exposed_ns"]
    by_step = overlap.groupby("step")[columns].mean()
    by_step["other_exposed_ns"] = by_step["exposed_ns"] - by_step["blocking_exposed_ns"]
    starts = bin_starts(len(by_step), _MOST_STEPS)
    whole = float(by_step["communication_ns"].sum())
    for column, name in _NAMES.items():
        values = by_step[column].to_numpy(dtype=np.float64)
        share = units.percent(float(values.sum()) / whole if whole else float("nan"), 0)
        figure.add_trace(
            go.Scatter(
                x=by_step.index.to_numpy()[starts],
                y=bin_means(values, starts) / 1e6,
                mode="lines",
                stackgroup="communication",
                name=f"{name}: {share}",
                line={"color": COVER_COLOURS[column], "width": 0.8, "shape": "hvh"},
                fillcolor=translucent(COVER_COLOURS[column], 0.75),
                hovertemplate=f"step %{{x}}, {name}: %{{y:.3~g}} ms<extra></extra>",
            )
        )
    binned = f" (means of {len(by_step)} steps in {len(starts)})" * (len(starts) < len(by_step))
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text=f"step{binned}")
    figure.update_yaxes(title_text="communication per step, ms", rangemode="tozero")
    return figure
