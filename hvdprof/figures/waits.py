"""Who waits for whom: wait and caused wait by rank and tensor, and lateness step by step."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.launch import bin_largest, bin_starts, mean_waits
from hvdprof.figures.palette import (
    LATE_SCALE,
    LINE_COLOURS,
    NEUTRAL_COLOUR,
    WAIT_COLOURS,
    empty_figure,
    plain,
    say,
)
from hvdprof.model.arrays import Int64s

_MOST_STEPS = 2000
_MOST_LATE_RANKS = 128
_MOST_CELLS = 80_000
_COLOUR_QUANTILE = 0.99
_MOST_TICKS = 16


def lateness_map(
    lateness: pd.DataFrame,
    job_steps: pd.DataFrame | None = None,
    stragglers: pd.DataFrame | None = None,
) -> go.Figure:
    """Ranks by steps, coloured by lateness against the median of the other ranks.

    Above 2,000 steps, 128 ranks or 80,000 cells a cell stands for several and shows the largest
    lateness of them; the axis says so. Of two ranks, whose rows mirror each other, the later one
    is drawn.

    Args:
        lateness: Rows of LATENESS of one launch, by step and rank.
        job_steps: Its steps, a ``LaunchSteps.table``: their times are above, excluded ones hatched.
        stragglers: Its rows of STRAGGLERS, for the mean lateness of each rank at the right.
    """
    figure = empty_figure()
    if lateness.empty:
        return say(figure, "No launch of two or more ranks has steps recorded on all of them.")
    steps, ranks = (np.unique(lateness[name].to_numpy()) for name in ("step", "rank"))
    late_ms = lateness["lateness_ns"].to_numpy().reshape(len(steps), len(ranks)) / 1e6
    if len(ranks) == 2:
        later = int(late_ms.mean(axis=0).argmax())
        ranks, late_ms = ranks[[later]], late_ms[:, [later]]
    if job_steps is not None and len(job_steps) <= _MOST_STEPS:
        # A column of its own: else a neighbour's colour covers it.
        every = np.union1d(steps, job_steps["step"].to_numpy())
        whole = np.full((len(every), len(ranks)), np.nan)
        whole[np.searchsorted(every, steps)] = late_ms
        steps, late_ms = every, whole
    rank_starts = bin_starts(len(ranks), _MOST_LATE_RANKS)
    most_columns = min(_MOST_STEPS, max(_MOST_CELLS // len(rank_starts), 1))
    step_starts = bin_starts(len(steps), most_columns)
    cells = bin_largest(bin_largest(late_ms, step_starts).T, rank_starts)
    places, where = steps[step_starts].astype(np.float64), "step %{x}"
    if job_steps is not None and (job_steps["num_steps"] > 1).any():
        # Windows of a light recording: each as wide as its steps.
        last = job_steps.iloc[-1]
        places = np.append(places, last["step"] + last["num_steps"]) - 0.5
        where = "window around step %{x:.0f}"
    limit = max(float(np.nanquantile(np.abs(cells), _COLOUR_QUANTILE)), 1e-3)
    figure.add_trace(
        go.Heatmap(
            z=cells.astype(np.float32),
            x=places,
            y=ranks[rank_starts].astype(np.float64),
            colorscale=list(LATE_SCALE),
            zmin=-limit,
            zmax=limit,
            colorbar={"title": {"text": "lateness, ms"}, "thickness": 14, "outlinewidth": 0},
            hovertemplate=f"rank %{{y}}, {where}: %{{z:.3~g}} ms<extra></extra>",
        )
    )
    figure.update_layout(height=max(260, min(160 + 26 * len(rank_starts), 360)))
    figure.update_xaxes(title_text=_title("step", len(steps), len(step_starts)), showgrid=False)
    figure.update_yaxes(
        title_text=_title("rank", len(ranks), len(rank_starts)),
        showgrid=False,
        autorange="reversed",
        dtick=1 if len(rank_starts) <= _MOST_TICKS else None,
    )
    if job_steps is not None:
        _step_times_above(figure, job_steps, ranks)
    if stragglers is not None and len(rank_starts) == len(ranks):
        _means_at_right(figure, stragglers[stragglers["rank"].isin(ranks)])
    return figure


def frame(figure: go.Figure, first: int, last: int) -> go.Figure:
    """The figure with the steps from ``first`` to ``last`` framed."""
    line = {"color": LINE_COLOURS[0], "width": 2}
    return figure.add_vrect(x0=first - 0.5, x1=last + 0.5, fillcolor="rgba(0,0,0,0)", line=line)


def _step_times_above(figure: go.Figure, job_steps: pd.DataFrame, ranks: Int64s) -> None:
    """The step time over the columns, and a hatched bar over each step that is excluded."""
    steady = job_steps["steady"].to_numpy(dtype=bool)
    steps, times_ms = job_steps["step"], job_steps["dur_ns"] / 1e6
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=times_ms,
            yaxis="y2",
            mode="lines",
            line={"color": NEUTRAL_COLOUR, "width": 1.2},
            showlegend=False,
            hovertemplate="step %{x}: %{y:.4~g} ms<extra></extra>",
        )
    )
    if not steady.all():
        figure.add_trace(
            go.Bar(
                x=steps[~steady],
                y=[float(ranks[-1] - ranks[0]) + 1] * int((~steady).sum()),
                base=float(ranks[0]) - 0.5,
                width=job_steps["num_steps"].to_numpy(np.float64)[~steady],
                offset=-0.5,
                name="excluded",
                marker={
                    "color": "rgba(0,0,0,0)",
                    "pattern": {"shape": "/", "fgcolor": NEUTRAL_COLOUR, "size": 5},
                },
                showlegend=True,
                hovertext=job_steps["why"][~steady].tolist(),
                hovertemplate="step %{x}: excluded, %{hovertext}<extra></extra>",
            )
        )
    figure.update_layout(
        yaxis={"domain": [0, 0.74]},
        yaxis2={
            "domain": [0.8, 1],
            "anchor": "x",
            "automargin": True,
            "title": {"text": "step, ms"},
            "nticks": 3,
        },
        height=max(300, min(220 + 26 * len(ranks), 360)),
    )


def _means_at_right(figure: go.Figure, stragglers: pd.DataFrame) -> None:
    """The mean lateness of each rank with its 95 % interval."""
    mean, low, high = (
        stragglers[f"lateness{end}_ns"].to_numpy(dtype=np.float64) / 1e6
        for end in ("", "_low", "_high")
    )
    figure.add_trace(
        go.Bar(
            x=mean,
            y=stragglers["rank"],
            xaxis="x2",
            orientation="h",
            marker={"color": WAIT_COLOURS["caused_wait_ns"]},
            error_x={"type": "data", "array": high - mean, "arrayminus": mean - low},
            showlegend=False,
            hovertemplate="rank %{y}: mean %{x:.3~g} ms<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"domain": [0, 0.84]},
        xaxis2={"domain": [0.87, 1], "anchor": "y", "title": {"text": "mean, ms"}, "nticks": 3},
    )


def _title(what: str, number: int, shown: int) -> str:
    if number == shown:
        return what
    return f"{what} (binned: {units.count(number)} {what}s in {shown}, the largest of each)"


_MOST_RANKS = 40
_MOST_TENSORS = 20
_LABEL_CHARACTERS = 26
_ROW_HEIGHT = 24
_ROOM = 110

_MEASURES = {
    "waited_ns": "wait of the rank itself",
    "caused_wait_ns": "caused wait (Shapley)",
    "wait_as_last_ns": "wait as last rank",
}


def wait_by_rank(caused_wait: pd.DataFrame) -> go.Figure:
    """Wait of each rank per step and the wait it causes, by both measures.

    Above 40 ranks, the 40 with the largest caused wait are shown, and the axis says so.
    """
    figure = empty_figure()
    if caused_wait.empty:
        return say(figure, "No wait data: recorder files of at least two ranks are required.")
    shown = caused_wait.nlargest(_MOST_RANKS, "caused_wait_ns").sort_values("rank")
    labels = [str(rank) for rank in shown["rank"]]
    for column, name in _MEASURES.items():
        figure.add_trace(
            go.Bar(
                x=labels,
                y=shown[column] / 1e6,
                name=name,
                marker={"color": WAIT_COLOURS[column]},
                hovertext=[
                    f"<b>rank {row['rank']}</b> {name}<br>{units.milliseconds(row[column])} per "
                    "step"
                    for row in shown.to_dict("records")
                ],
                hoverinfo="text",
            )
        )
    left_out = len(caused_wait) - len(shown)
    more = (
        f" (the {len(shown)} with the largest caused wait of {len(caused_wait)})"
        if left_out
        else ""
    )
    figure.update_xaxes(title_text=f"rank{more}", type="category", ticks="")
    figure.update_yaxes(title_text="time per step, ms", rangemode="tozero")
    figure.update_layout(barmode="group", bargap=0.3)
    return figure


def wait_by_tensor(arrivals: pd.DataFrame) -> go.Figure:
    """The tensors with the longest wait for their last rank, summed over ranks.

    Args:
        arrivals: Rows of COLLECTIVE_ARRIVALS of one launch, without warm-up.
    """
    figure = empty_figure()
    waits = mean_waits(arrivals)
    if waits.empty:
        return say(figure, "No ready times of gradients are recorded on two or more ranks.")
    shown = waits.head(_MOST_TENSORS)
    figure.update_layout(height=_ROOM + _ROW_HEIGHT * max(len(shown), 3))
    figure.add_trace(
        go.Bar(
            x=shown["wait_ns"] / 1e6,
            y=list(range(len(shown))),
            orientation="h",
            marker={"color": WAIT_COLOURS["caused_wait_ns"]},
            hovertext=[
                f"<b>{plain(row['tensor'], 80)}</b><br>{units.milliseconds(row['wait_ns'])} per "
                "step,"
                f" summed over ranks<br>rank {row['most_last']} is last in "
                f"{units.percent(row['most_last_share'], 0)} of the steps"
                for row in shown.to_dict("records")
            ],
            hoverinfo="text",
            showlegend=False,
        )
    )
    names = [str(tensor) for tensor in shown["tensor"]]
    prefix = _common_prefix(names)
    more = f"; the {len(shown)} longest of {len(waits)}" if len(waits) > len(shown) else ""
    figure.update_xaxes(title_text=f"wait per step, ms{more}", rangemode="tozero")
    figure.update_yaxes(
        tickvals=list(range(len(shown))),
        ticktext=[plain(name[len(prefix) :], _LABEL_CHARACTERS) for name in names],
        title_text=f"{plain(prefix)}…" if prefix else "",
        autorange="reversed",
        ticks="",
    )
    return figure


def _common_prefix(names: Sequence[str]) -> str:
    """Common start of all names, up to a dot; empty for one name."""
    if len(names) < 2:
        return ""
    alike = itertools.takewhile(lambda signs: len(set(signs)) == 1, zip(*names, strict=False))
    common = "".join(signs[0] for signs in alike)
    return common[: common.rfind(".") + 1]


def steady_arrivals(arrivals: pd.DataFrame, job_steps: pd.DataFrame) -> pd.DataFrame:
    """The rows of COLLECTIVE_ARRIVALS of one launch that lie in its steady steps."""
    steady = job_steps.loc[job_steps["steady"].to_numpy(dtype=bool), "step"]
    return arrivals[arrivals["step"].isin(steady).to_numpy()]
