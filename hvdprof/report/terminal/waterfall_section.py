"""The waterfall of one cell as bars in a terminal."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import BASELINE_CREDIT
from hvdprof.model.cell_key import keeps_batches, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis, Verdict
from hvdprof.report.terminal.section_text import print_hanging

_LONGEST_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_EXECUTING, _NEGOTIATING = "  of it collectives executing", "  of it negotiation and cycle"
_COPYING = "  of it copies for fusion"
_SMALLEST_SHOWN = 0.0005
"""A term below this share of the step would be 0.0 %, and is not shown."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One term: its name, texts of time and share, and its length by that of the longest."""

    name: str
    time: str
    share: str
    length: float
    is_gain: bool


@dataclass(frozen=True, slots=True)
class WaterfallPage:
    """The bars of one cell, and the sentence above them."""

    title: str
    bars: tuple[Bar, ...]


def shape_waterfall(analysis: RunAnalysis) -> WaterfallPage | None:
    """The waterfall of the cell that the verdict is about; None where it has none to show."""
    verdict = analysis.verdict
    rows = analysis.table("waterfall")
    of_cell = of_base_cell(rows, verdict.model, verdict.np, verdict.engine)
    if of_cell.empty:
        return None
    longest = float(of_cell["time_ns"].abs().max()) or 1.0
    bars = tuple(
        bar
        for row in of_cell.to_dict("records")
        if abs(row["share"]) >= _SMALLEST_SHOWN
        for bar in (_bar(row, longest), *_parts_of_transfer(row, longest))
    )
    if not bars:
        return None
    has_baseline = BASELINE_CREDIT in set(of_cell["term"])
    reference = _reference(analysis) if has_baseline else ""
    return WaterfallPage(_title(verdict, reference, float(of_cell["time_ns"].sum())), bars)


def _bar(row: FrameRow, longest: float) -> Bar:
    share = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
    return Bar(
        name=cause_name(row),
        time=units.milliseconds_within(row["time_ns"], row["time_low_ns"], row["time_high_ns"]),
        share=share,
        length=abs(row["time_ns"]) / longest,
        is_gain=row["time_ns"] < 0,
    )


def _parts_of_transfer(row: FrameRow, longest: float) -> Iterator[Bar]:
    """Execution, copies and negotiation where a trace pass splits them."""
    executing, copying = float(row["executing_share"]), float(row["copying_share"])
    if math.isnan(executing):
        return
    parts = {_EXECUTING: executing - copying, _COPYING: copying, _NEGOTIATING: 1.0 - executing}
    for name, part in parts.items():
        if name == _COPYING and abs(part * row["share"]) < _SMALLEST_SHOWN:
            continue
        yield Bar(
            name=name,
            time=units.milliseconds(part * row["time_ns"]),
            share=units.percent(part * row["share"]),
            length=abs(part * row["time_ns"]) / longest,
            is_gain=row["time_ns"] < 0,
        )


def print_waterfall(console: Console, page: WaterfallPage | None) -> None:
    """Print the bars; gains are hatched, because they make up for other terms."""
    if page is None:
        return
    console.print(Text("\nWhere the time goes", style="bold"))
    print_hanging(console, "  ", f"{page.title} (means, shares of the mean step)", style="dim")
    widths = [
        max(len(getattr(bar, field)) for bar in page.bars) for field in ("name", "time", "share")
    ]
    room = console.width - sum(widths) - 7
    longest = max(0, min(_LONGEST_BAR, room))
    for bar in page.bars:
        line = Text(f"  {bar.name.ljust(widths[0])} {bar.time.rjust(widths[1])}  ")
        line.append(bar.share.rjust(widths[2]), style="dim")
        line.append(f"  {drawn(bar, longest)}", style="green" if bar.is_gain else "red")
        line.rstrip()
        console.print(line, soft_wrap=True)


def drawn(bar: Bar, longest: int) -> str:
    """The bar as characters, at an eighth of a character; a gain as hatching."""
    eighths = round(bar.length * longest * 8)
    if bar.is_gain:
        return "░" * round(eighths / 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _title(verdict: Verdict, baseline: str, lost_ns: float) -> str:
    more = units.milliseconds(abs(lost_ns))
    compared = "more" if lost_ns >= 0 else "less"
    place = place_name(verdict.model, verdict.np, verdict.engine)
    if not baseline:
        whose = "that the ranks share" if verdict.np > 1 else "of the rank"
        return f"{place}: {more} per step beyond the compute {whose}"
    return f"{place}: {more} {compared} per step than {baseline}"


def _reference(analysis: RunAnalysis) -> str:
    scaling, verdict = analysis.scaling, analysis.verdict
    cells = scaling[(scaling["model"] == verdict.model) & (scaling["np"] == verdict.np)]
    names = cells.loc[cells["engine"] == verdict.engine, "baseline"]
    baseline = str(names.iloc[0]) if len(names) else "its baseline"
    is_weak = keeps_batches(analysis.scaling, analysis.verdict.model)
    return baseline if is_weak else f"as many samples take with {baseline}"
