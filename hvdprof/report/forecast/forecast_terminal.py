"""A forecast as terminal text: verdict, bands per network, lost points by cause, open questions."""

from typing import IO

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.causes import FORECAST_TERMS
from hvdprof.model.forecast import Forecast
from hvdprof.model.frame_row import FrameRow
from hvdprof.report.forecast.forecast_cost import samples_per_currency
from hvdprof.report.forecast.forecast_texts import (
    caveat_of,
    knee_of,
    limited_by,
    lost_points,
    missing_sentences,
    next_step_of,
    reach_of,
    title_of,
    verdict_of,
    width_sentence,
)
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict

_SMALLEST_SHARE = 0.0005
_TITLE = "bold cyan"


def render_forecast(
    forecast: Forecast,
    stream: IO[str],
    *,
    run: str = "RUN",
    price: float | None = None,
    width: int | None = None,
) -> None:
    """Write a verdict of two lines, the next measurement, and the bands of every network.

    Args:
        forecast: A finished forecast.
        stream: Where to write.
        run: The run directory in commands.
        price: Price of one rank for an hour, which adds a column; in any currency.
        width: Columns of the console; those of the terminal when not given.
    """
    console = report_console(stream, width)
    print_hanging(console, "", verdict_of(forecast), style="bold")
    print_hanging(console, "", reach_of(forecast), style="bold")
    print_verdict(console, "", "", caveat_of(forecast))
    _print_next(console, forecast, run)
    for scenario in forecast.scenarios:
        _print_scenario(console, forecast, scenario, price)
    sentence = width_sentence(forecast)
    if sentence:
        console.print()
        print_hanging(console, "", sentence)
    _print_list(console, "Assumptions", list(forecast.assumptions))
    _print_list(console, "Not in the run", list(missing_sentences(forecast, run)))


def _print_next(console: Console, forecast: Forecast, run: str) -> None:
    text, command = next_step_of(forecast, run)
    if text:
        print_hanging(console, "Next: ", text)
    if command:
        console.print(Text(f"      {command}"), soft_wrap=True)


def _print_scenario(
    console: Console, forecast: Forecast, scenario: str, price: float | None
) -> None:
    rows = forecast.rows[forecast.rows["scenario"] == scenario].sort_values("np")
    limits = next((one for one in forecast.limits if one.scenario == scenario), None)
    console.print()
    print_hanging(console, "", title_of(forecast, scenario), style=_TITLE)
    console.print(_bands(rows, forecast.question.target, price))
    if limits is not None:
        print_hanging(console, "", knee_of(limits))
    if len(forecast.scenarios) == 1:
        points = lost_points(forecast, scenario)
        if not points.empty:
            console.print(Text("\nLost points of efficiency by cause", style=_TITLE))
            console.print(_points(points))


def _bands(rows: pd.DataFrame, target: float, price: float | None) -> Table:
    heads = ["np", "hosts", "efficiency %\n(90 % band)", "50 %\nband"]
    heads += ["samples/s\n(90 % band)", f"≥ {units.percent_limit(target)}\nlikely"]
    heads += ["samples/\ncurrency"] if price else []
    table = _frame(heads)
    # Not both fit into 80 columns; the causes are in a table of their own.
    if not price:
        table.add_column("limited by")
    costs = samples_per_currency(rows, price)["samples_per_currency_p50"] if price else rows["np"]
    for row, cost in zip(rows.to_dict("records"), costs, strict=True):
        cells = [
            units.count(row["np"]),
            units.count(row["num_hosts"]),
            f"{100 * row['efficiency_p50']:.1f} ({_percents(row, 'p5', 'p95')})",
            _percents(row, "p25", "p75"),
            f"{units.rate(row['samples_per_s_p50'])}\n{_rates(row)}",
            units.percent(row["meets_target"], 0),
        ]
        cells += [units.rate(cost) if price else limited_by(row) or "no single cause"]
        table.add_row(*cells)
    return table


def _points(points: pd.DataFrame) -> Table:
    """Causes as rows: a forecast has more of them than sizes."""
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    table.add_column("")
    for size in points.index:
        table.add_column(f"np={units.count(int(size))}", justify="right", no_wrap=True)
    for term in points.columns[(points.abs() >= _SMALLEST_SHARE).any()]:
        shares = (f"{100 * share:.1f}" for share in points[term])
        table.add_row(FORECAST_TERMS[str(term)].partition(" (")[0], *shares)
    table.add_section()
    table.add_row("sum", *(f"{100 * share:.1f}" for share in points.sum(axis=1)))
    return table


def _frame(heads: list[str]) -> Table:
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _percents(row: FrameRow, low: str, high: str) -> str:
    ends = [100 * float(row[f"efficiency_{short}"]) for short in (low, high)]
    if ends[0] != ends[0]:
        return f"{ends[1]:.0f} or less"
    return f"{ends[0]:.0f} to {ends[1]:.0f}"


def _rates(row: FrameRow) -> str:
    low, high = float(row["samples_per_s_p5"]), float(row["samples_per_s_p95"])
    if low != low:
        return f"{units.rate(high)} or less"
    return f"{units.rate(low)} to {units.rate(high)}"


def _print_list(console: Console, title: str, sentences: list[str]) -> None:
    if not sentences:
        return
    console.print(Text(f"\n{title}", style=_TITLE))
    for sentence in sentences:
        print_hanging(console, "- ", sentence)
