"""A forecast as terminal text: verdict, bands per network, lost points by cause, open questions."""

from typing import IO

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.causes import SHORT_NAMES
from hvdprof.model.results.forecast import Forecast
from hvdprof.report.forecast.forecast_json import samples_per_currency
from hvdprof.report.forecast.forecast_section import network_rows, span
from hvdprof.report.forecast.forecast_texts import (
    NO_CAUSE,
    caveat_of,
    knee_sentences,
    limited_by,
    lost_points,
    missing_sentences,
    network_name,
    next_step_of,
    reach_of,
    title_of,
    verdict_of,
    width_sentence,
)
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.band_cells import (
    BAND_HEADS,
    SHORT_HEADS,
    chance_head,
    efficiency_cell,
    frame_of,
    rate_cell,
)
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict
from hvdprof.report.terminal.whole_table import print_whole

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
        price: Price of one rank for an hour, which adds a table; in any currency.
        width: Columns of the console; those of the terminal when not given.
    """
    console = report_console(stream, width)
    print_hanging(console, "", verdict_of(forecast), style="bold")
    print_hanging(console, "", reach_of(forecast), style="bold")
    print_verdict(console, "", "", caveat_of(forecast))
    _print_next(console, forecast, run)
    _print_bands(console, forecast, price)
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


def _print_bands(console: Console, forecast: Forecast, price: float | None) -> None:
    console.print()
    print_hanging(console, "", title_of(forecast), style=_TITLE)
    console.print(_bands(forecast))
    for sentence in knee_sentences(forecast.limits):
        print_hanging(console, "", sentence)
    if price:
        title = f"Samples per unit of currency, at {price:g} per rank and hour"
        console.print(Text(f"\n{title}", style=_TITLE))
        console.print(_costs(forecast, price))
    if len(forecast.scenarios) == 1:
        points = lost_points(forecast, forecast.scenarios[0])
        if not points.empty:
            title = "Lost points of efficiency by cause, means; gains are negative"
            console.print(Text(f"\n{title}", style=_TITLE))
            print_whole(console, _points(points))


def _bands(forecast: Forecast) -> Table:
    """One table: of several networks the medians with one band, else both bands."""
    several = len(forecast.scenarios) > 1
    heads = ["np\n(hosts)", *(SHORT_HEADS if several else BAND_HEADS)]
    table = frame_of([*heads, chance_head(forecast.question.target)], "limited by")
    if several:
        table.add_column("over", overflow="fold")
    for networks, rows in network_rows(forecast):
        first, chances = rows[0], span(rows, "meets_target", "meets_target")
        cells = [efficiency_cell(first), rate_cell(first)]
        if several:
            medians = span(rows, "efficiency_p50", "efficiency_p50")
            rates = span(rows, "samples_per_s_p50", "samples_per_s_p50", units.rate)
            ends = span(rows, "efficiency_p5", "efficiency_p95")
            cells = [f"{medians}\n({ends})", rates.replace(" to ", " to\n")]
        table.add_row(
            f"{units.count(first['np'])}\n({units.count(first['num_hosts'])})",
            *cells,
            f"{chances} %",
            limited_by(first) or NO_CAUSE,
            *([networks] if several else []),
        )
    return table


def _costs(forecast: Forecast, price: float) -> Table:
    several = len(forecast.scenarios) > 1
    table = frame_of(
        ["np", "samples per unit\nof currency\n(90 % band)"], "over" if several else ""
    )
    for row in samples_per_currency(forecast.rows, price).to_dict("records"):
        over = [network_name(str(row["scenario"]))] if several else []
        table.add_row(units.count(row["np"]), rate_cell(row, "samples_per_currency"), *over)
    return table


def _points(points: pd.DataFrame) -> Table:
    """Causes as rows: a forecast has more of them than sizes."""
    table = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    table.add_column("")
    for size in points.index:
        table.add_column(f"np={units.count(int(size))}", justify="right", no_wrap=True)
    for term in points.columns[(points.abs() >= _SMALLEST_SHARE).any()]:
        shares = (f"{100 * share:.1f}" for share in points[term])
        table.add_row(SHORT_NAMES[str(term)], *shares)
    table.add_section()
    table.add_row("sum", *(f"{100 * share:.1f}" for share in points.sum(axis=1)))
    return table


def _print_list(console: Console, title: str, sentences: list[str]) -> None:
    if not sentences:
        return
    console.print(Text(f"\n{title}", style=_TITLE))
    for sentence in sentences:
        print_hanging(console, "- ", sentence)
