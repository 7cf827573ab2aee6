"""Transfer time and bus bandwidth of collectives against their size."""

from collections.abc import Hashable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.palette import LINE_COLOURS, NEUTRAL_COLOUR, empty_figure, log_axis, plain, say
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LAUNCH

_GROUP = ["np", "collective"]
_POINTS_OF_LINE = 40
_MOST_SIZES = 300
_SCALES = {"ns": 1e-6, "GB/s": 1.0}


def transfer_by_size(
    collectives: pd.DataFrame,
    segments: pd.DataFrame,
    link_fit: pd.DataFrame,
    nccl_choices: pd.DataFrame,
) -> go.Figure:
    """Transfer time against payload: median and 5 to 95 % of each size, and the fitted line.

    One line per number of ranks and collective with a fit, ``alpha + beta * bytes``. Crosses show
    the time that NCCL's log predicts for an operation.
    """
    figure = empty_figure()
    sizes = by_size(collectives, segments, "transfer_ns")
    if sizes.empty:
        return say(figure, "No timeline of this run holds a collective of known size.")
    for place, (key, rows) in enumerate(sizes.groupby(_GROUP, sort=False)):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        label = _label(key)
        figure.add_trace(_points(rows, label, colour, "ns"))
        fit = _fit_of(link_fit, key)
        if fit is not None:
            figure.add_trace(_line(fit, label, colour))
    expected = nccl_choices[nccl_choices["time_ns"].notna() & (nccl_choices["size_bytes"] > 0)]
    if len(expected):
        figure.add_trace(_expected(expected))
    _size_axis(figure, sizes["size_bytes"])
    figure.update_yaxes(
        title_text="transfer, ms", **log_axis(sizes[["low", "high"]].to_numpy().ravel())
    )
    return figure


def bus_bandwidth(
    collectives: pd.DataFrame, segments: pd.DataFrame, nccl_tests: pd.DataFrame
) -> go.Figure:
    """Bus bandwidth against payload, of the job and of nccl-tests."""
    figure = empty_figure()
    sizes = by_size(collectives, segments, "busbw_gb_per_s")
    tests = nccl_tests[(nccl_tests["size_bytes"] > 0) & (nccl_tests["busbw_gb_s"] > 0)]
    if sizes.empty and tests.empty:
        return say(figure, "No collective has a known size and number of ranks.")
    for place, (key, rows) in enumerate(sizes.groupby(_GROUP, sort=False)):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        figure.add_trace(_points(rows, _label(key), colour, "GB/s"))
    runs = tests.astype({"file": str}).groupby(["file", "run"], sort=False)
    for place, ((file, run), rows) in enumerate(runs):
        best = rows.groupby("size_bytes")["busbw_gb_s"].max().reset_index()
        figure.add_trace(
            go.Scatter(
                x=best["size_bytes"],
                y=best["busbw_gb_s"],
                mode="lines+markers",
                name=f"nccl-tests: {plain(file)}" + (f", run {run}" if run else ""),
                line={"color": NEUTRAL_COLOUR, "dash": ("dot", "dash", "solid")[place % 3]},
                marker={"symbol": "diamond-open", "size": 6},
                hovertext=[
                    f"nccl-tests, {units.byte_size(row['size_bytes'])}: "
                    f"{units.of_unit(row['busbw_gb_s'], 'GB/s')}"
                    for row in best.to_dict("records")
                ],
                hoverinfo="text",
            )
        )
    _size_axis(figure, pd.concat([sizes["size_bytes"], tests["size_bytes"]]))
    speeds = pd.concat([sizes["low"], sizes["high"], tests["busbw_gb_s"]])
    figure.update_yaxes(title_text="bus bandwidth, GB/s", **log_axis(speeds))
    return figure


def by_size(collectives: pd.DataFrame, segments: pd.DataFrame, value: str) -> pd.DataFrame:
    """Positive values by number of ranks, collective and payload, without warm-up.

    Columns: np (0 where unknown), collective, size_bytes, low, median and high (5, 50 and 95 % of
    the values, in their unit), num. Above 300 payloads, neighbouring payloads are merged.
    """
    steady = collectives[
        ~collectives["warmup"].to_numpy(dtype=bool)
        & (collectives["size_bytes"].fillna(0) > 0).to_numpy()
        & (collectives[value].fillna(0) > 0).to_numpy()
    ]
    names = dict.fromkeys(LAUNCH, str)
    ranks = segments[[*LAUNCH, "size"]].astype(names).drop_duplicates(LAUNCH)
    steady = steady[[*LAUNCH, "collective", "size_bytes", value]].astype(
        names | {"collective": str}
    )
    steady = steady.merge(ranks, on=LAUNCH, how="left")
    steady["np"] = steady["size"].fillna(0).astype("int64")
    steady["size_bytes"] = steady["size_bytes"].astype("float64")
    if steady["size_bytes"].nunique() > _MOST_SIZES:
        steady["size_bytes"] = _rounded(steady["size_bytes"])
    grouped = steady.groupby([*_GROUP, "size_bytes"])[value]
    table = pd.DataFrame(
        {
            "low": grouped.quantile(0.05),
            "median": grouped.median(),
            "high": grouped.quantile(0.95),
            "num": grouped.size(),
        }
    )
    return table.astype("float64").reset_index()


def _rounded(sizes: pd.Series) -> pd.Series:
    """Sizes at the middles of bins of equal ratio, so that there are at most 300."""
    logs = np.log10(sizes)
    width = (logs.max() - logs.min()) / (_MOST_SIZES - 1)
    return pd.Series(10 ** (logs.min() + ((logs - logs.min()) / width).round() * width))


def _points(rows: pd.DataFrame, label: str, colour: str, unit: str) -> go.Scatter:
    scale = _SCALES[unit]
    return go.Scatter(
        x=rows["size_bytes"],
        y=rows["median"] * scale,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (rows["high"] - rows["median"]) * scale,
            "arrayminus": (rows["median"] - rows["low"]) * scale,
            "thickness": 1,
            "width": 3,
            "color": colour,
        },
        mode="markers",
        name=label,
        legendgroup=label,
        marker={"color": colour, "size": 7},
        hovertext=[
            f"<b>{label}, {units.byte_size(row['size_bytes'])}</b><br>median "
            + units.interval_of_unit(row["median"], row["low"], row["high"], unit)
            + f"<br>{units.count(row['num'])} executions; in parentheses 5 to 95 % of them"
            for row in rows.to_dict("records")
        ],
        hoverinfo="text",
    )


def _fit_of(link_fit: pd.DataFrame, key: object) -> FrameRow | None:
    for row in link_fit.to_dict("records"):
        if (row["np"], str(row["collective"])) == key and not row["reason"]:
            return row
    return None


def _line(fit: FrameRow, label: str, colour: str) -> go.Scatter:
    sizes = np.geomspace(fit["smallest_bytes"], fit["largest_bytes"], _POINTS_OF_LINE)
    text = (
        f"{units.milliseconds(fit['alpha_ns'])} + "
        f"{units.milliseconds(fit['beta_ns_per_mb'])} per MB "
        f"({units.of_unit(fit['bandwidth_gb_per_s'], 'GB/s')})"
    )
    return go.Scatter(
        x=sizes,
        y=(fit["alpha_ns"] + fit["beta_ns_per_mb"] * sizes / 1e6) / 1e6,
        mode="lines",
        name=f"fit: {text}",
        legendgroup=label,
        line={"color": colour, "width": 2, "dash": "dash"},
        hovertext=f"<b>{label}</b><br>{_with_intervals(fit)}",
        hoverinfo="text",
    )


def _with_intervals(fit: FrameRow) -> str:
    """The fit with its 95 % intervals, one line per number."""
    named = {"alpha": ("_ns", "ns"), "beta": ("_ns_per_mb", "ns/MB")}
    named["bandwidth"] = ("_gb_per_s", "GB/s")
    lines = []
    for name, (suffix, unit) in named.items():
        value, low, high = (float(fit[f"{name}{end}{suffix}"]) for end in ("", "_low", "_high"))
        lines.append(f"{name} {units.interval_of_unit(value, low, high, unit)}")
    return "<br>".join(lines)


def _expected(choices: pd.DataFrame) -> go.Scatter:
    return go.Scatter(
        x=choices["size_bytes"],
        y=choices["time_ns"] / 1e6,
        mode="markers",
        name="NCCL's own estimate",
        marker={"symbol": "x-thin-open", "size": 8, "color": NEUTRAL_COLOUR},
        hovertext=[
            f"NCCL estimates {units.milliseconds(row['time_ns'])} for "
            f"{units.byte_size(row['size_bytes'])}<br>"
            f"{plain(row['algorithm'])} {plain(row['protocol'])}"
            for row in choices.to_dict("records")
        ],
        hoverinfo="text",
    )


def _label(key: tuple[Hashable, ...]) -> str:
    num_ranks, collective = key
    return plain(collective) if num_ranks == 0 else f"{plain(collective)}, np={num_ranks}"


def _size_axis(figure: go.Figure, sizes: "pd.Series[float]") -> None:
    figure.update_xaxes(title_text="payload of one execution, bytes", **log_axis(sizes, "~s"))
