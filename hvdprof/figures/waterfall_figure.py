"""Step time from the baseline to a cell, by cause, as a waterfall."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.figures.palette import CAUSE_COLOURS, NEUTRAL_COLOUR, empty_figure, plain, say
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, short_cause_name
from hvdprof.model.causes import BASELINE_CREDIT, CAUSES
from hvdprof.model.cell_key import CELL_KEY, HOROVOD_ENGINE, keeps_batches, setting_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL

_HEIGHT, _HEIGHT_OF_BAR = 520, 56
_COMPACT_HEIGHT, _MOST_COMPACT, _COMPACT_CHARACTERS = 220, 4, 20
_PLOT_WIDTH, _CHARACTER_WIDTH = 400, 6.5
"""Pixels of the bars of the compact waterfall at 1280 px, and of a character beside them."""

_LEAST_PIXELS = 4
_SMALLEST_SHARE = 0.005
_SHORT = 0.5
_MARGIN = 1.03
_LABEL_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class WaterfallCell:
    """A measured configuration, named as in the tables."""

    model: str
    np: int
    engine: str = HOROVOD_ENGINE
    compression: str = "none"
    reduction: str = "average"

    @property
    def toggles(self) -> str:
        """Engine and toggles in one text, as ``setting_name`` writes them."""
        return setting_name(self.engine, self.compression, self.reduction)


def waterfall_cells(analysis: RunAnalysis) -> list[WaterfallCell]:
    """The cells that have a waterfall, in the order of the table."""
    rows = analysis.table(WATERFALL.name)[list(CELL_KEY)].drop_duplicates()
    return [
        WaterfallCell(str(model), int(np), *(str(name) for name in setting))
        for model, np, *setting in rows.itertuples(index=False)
    ]


def waterfall_figure(
    analysis: RunAnalysis, cell: WaterfallCell | None = None, *, compact: bool = False
) -> go.Figure:
    """From the step time of the baseline to that of the cell, one bar per cause.

    Args:
        analysis: The finished analysis.
        cell: Which cell; that of the verdict, without toggles, by default.
        compact: 220 px high: the four largest causes, and the sum of the others.
    """
    figure = empty_figure(_COMPACT_HEIGHT if compact else _HEIGHT)
    verdict = analysis.verdict
    cell = WaterfallCell(verdict.model, verdict.np, verdict.engine) if cell is None else cell
    rows = analysis.table(WATERFALL.name)
    is_own = pd.Series(True, index=rows.index)
    for name in CELL_KEY:
        is_own &= rows[name] == getattr(cell, name)
    of_cell = rows[is_own.to_numpy(dtype=bool)]
    if of_cell.empty:
        return say(figure, "No throughput was measured with recorded ranks.")
    records = of_cell.to_dict("records")
    largest = max(records, key=lambda row: abs(row["share"]))
    if not largest["share"]:
        return say(figure, "The step time equals that of the baseline: no loss.")
    step_ns = largest["time_ns"] / largest["share"]
    base_ns = step_ns - sum(row["time_ns"] for row in records)
    reached = base_ns
    causes = [row for row in records if row["term"] in CAUSES]
    if compact:
        return _compact(figure, analysis, cell, causes, (base_ns, step_ns))
    reference = ",<br>".join(_reference(analysis, cell, records))
    figure.add_trace(_whole(reference, base_ns, step_ns))
    for row in causes:
        figure.add_trace(_bar(row, reached))
        reached += row["time_ns"]
    figure.add_trace(_whole(_name(cell), step_ns, base_ns))
    # Names of stragglers take several lines.
    figure.update_layout(bargap=0.25, height=max(_HEIGHT, _HEIGHT_OF_BAR * len(figure.data)))
    figure.update_xaxes(title_text="step time, ms", rangemode="tozero")
    figure.update_yaxes(ticks="", autorange="reversed")
    return figure


def _compact(
    figure: go.Figure,
    analysis: RunAnalysis,
    cell: WaterfallCell,
    causes: Sequence[FrameRow],
    ends_ns: tuple[float, float],
) -> go.Figure:
    """Bars of one line each, with milliseconds and points beside them."""
    base_ns, step_ns = ends_ns
    reference, *_ = _reference(analysis, cell, causes)
    largest = sorted(causes, key=lambda row: -abs(row["share"]))[:_MOST_COMPACT]
    # A narrower bar is a line, whose length cannot be read; one alone is worth its name.
    smallest_ns = _LEAST_PIXELS / _PLOT_WIDTH * max(step_ns, base_ns)
    shown = [row for row in largest if abs(row["time_ns"]) >= smallest_ns]
    visible = [row for row in causes if abs(row["share"]) >= _SMALLEST_SHARE]
    if len(visible) <= min(len(shown) + 1, _MOST_COMPACT):
        shown = visible
    shown = [row for row in causes if any(row is one for one in shown)]
    others = [row for row in causes if row["time_ns"] and not any(row is one for one in shown)]
    reached = base_ns
    figure.add_trace(_whole(reference, base_ns, step_ns))
    for row in shown:
        figure.add_trace(_line_of(_bar(row, reached), row))
        reached += row["time_ns"]
    time_ns, share = (sum(float(row[key]) for row in others) for key in ("time_ns", "share"))
    if abs(share) >= _SMALLEST_SHARE:
        bar = _sum_of(len(others), reached, time_ns, share)
        bar.update(hovertext=["<br>".join(map(_listed, others))])
        figure.add_trace(bar)
    ranks = "1 rank" if cell.np == 1 else f"{units.count(cell.np)} ranks"
    figure.add_trace(_whole(ranks, step_ns, base_ns))
    axis_ms = max(_needed_ms(bar) for bar in figure.data if isinstance(bar, go.Bar))
    figure.update_layout(bargap=0.25)
    # Room for the texts beside the bars.
    figure.update_xaxes(title_text="step time, ms (pts: share of the step)", range=[0, axis_ms])
    figure.update_yaxes(ticks="", autorange="reversed", tickfont={"size": 12})
    return figure


def _needed_ms(bar: go.Bar) -> float:
    """The end of the axis from which a bar and the text beside it fit, ms."""
    begin = float(bar.base[0]) if bar.base is not None else 0.0
    end = max(begin, begin + float(bar.x[0]))
    if bar.textposition == "inside":
        return end * _MARGIN
    text_share = _CHARACTER_WIDTH * len(bar.text[0]) / _PLOT_WIDTH
    return end / max(1.0 - text_share, 0.5)


def _line_of(bar: go.Bar, row: FrameRow) -> go.Bar:
    """A bar with a name of one line, and its time and share beside it."""
    short = short_cause_name(row)
    if len(short) > _COMPACT_CHARACTERS:
        short = f"{short[: _COMPACT_CHARACTERS - 1]}…"
    text = f"{_time_text(row)}, {_points_text(row).replace('points', 'pts')}"
    bar.update(
        y=[short],
        text=[text],
        textposition="outside",
        textangle=0,
        textfont={"size": 11},
        cliponaxis=False,
        constraintext="none",
        error_x={"visible": False},
    )
    return bar


def _time_text(row: FrameRow) -> str:
    return units.milliseconds_within(row["time_ns"], row["time_low_ns"], row["time_high_ns"])


def _points_text(row: FrameRow) -> str:
    return units.points(row["share"], row["share_low"], row["share_high"])


def _sum_of(number: int, reached_ns: float, time_ns: float, share: float) -> go.Bar:
    return go.Bar(
        y=[units.counted(number, "other cause")],  # type: ignore[arg-type]
        x=[time_ns / 1e6],
        base=[reached_ns / 1e6],
        orientation="h",
        marker={"color": NEUTRAL_COLOUR},
        text=[f"{units.milliseconds(time_ns)}, {units.points(share).replace('points', 'pts')}"],
        textposition="outside",
        textfont={"size": 11},
        cliponaxis=False,
        hoverinfo="text",
        showlegend=False,
    )


def _listed(row: FrameRow) -> str:
    return f"{cause_name(row)}: {units.milliseconds(row['time_ns'])}"


def _reference(
    analysis: RunAnalysis, cell: WaterfallCell, records: Sequence[FrameRow]
) -> tuple[str, ...]:
    """What the waterfall begins with, and where that is not all, of how many samples."""
    if all(row["term"] != BASELINE_CREDIT for row in records):
        return ("compute",)
    is_weak = keeps_batches(analysis.scaling, cell.model)
    return ("baseline",) if is_weak else ("baseline", "same number<br>of samples")


def _bar(row: FrameRow, reached_ns: float) -> go.Bar:
    name = cause_name(row)
    lines = textwrap.wrap(name, _LABEL_CHARACTERS)
    size = f"{_time_text(row)} · {_points_text(row)}"
    return go.Bar(
        y=["<br>".join([*lines, f"<b>{size}</b>"])],  # type: ignore[arg-type]
        x=[row["time_ns"] / 1e6],
        base=[reached_ns / 1e6],
        orientation="h",
        marker={"color": CAUSE_COLOURS[row["term"]]},
        error_x=_bars(row["time_ns"], row["time_low_ns"], row["time_high_ns"]),
        hovertext=[
            f"<b>{name}</b><br>{units.milliseconds(row['time_ns'])} per step<br>"
            + units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
            + " of the step<br>saved if removed: "
            + f"{units.milliseconds(row['saved_if_removed_ns'])}{_baseline(row)}"
        ],
        hoverinfo="text",
        # A click opens the finding on it.
        customdata=[str(row["cause_id"])],  # type: ignore[list-item]
        showlegend=False,
    )


def _baseline(row: FrameRow) -> str:
    """What the baseline spends there, which is not in the bar."""
    spent = float(row["baseline_ns"])
    return "" if math.isnan(spent) else f"<br>besides, as baseline: {units.milliseconds(spent)}"


def _name(cell: WaterfallCell) -> str:
    ranks = "1 rank" if cell.np == 1 else f"{units.count(cell.np)} ranks"
    return f"{plain(cell.model, _LABEL_CHARACTERS)}<br>{ranks}<br>{cell.toggles}"


def _whole(name: str, time_ns: float, other_ns: float) -> go.Bar:
    return go.Bar(
        y=[name],  # type: ignore[arg-type]
        x=[time_ns / 1e6],
        orientation="h",
        marker={"color": NEUTRAL_COLOUR},
        text=[f"<b>{units.milliseconds(time_ns)}</b>"],
        # On narrow screens a text inside a short bar would be cut.
        textposition="inside" if time_ns >= _SHORT * other_ns else "outside",
        insidetextanchor="end",
        textangle=0,
        textfont={"color": "#222222", "size": 13},
        cliponaxis=False,
        constraintext="none",
        hoverinfo="skip",
        showlegend=False,
    )


def _bars(value: float, low: float, high: float) -> dict[str, object]:
    known = not (math.isnan(low) or math.isnan(high))
    return {
        "type": "data",
        "symmetric": False,
        "array": [(high - value) / 1e6 if known else 0.0],
        "arrayminus": [(value - low) / 1e6 if known else 0.0],
        "visible": known,
        "thickness": 1,
        "width": 4,
        "color": "#666666",
    }
