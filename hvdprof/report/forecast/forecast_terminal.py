"""A forecast as terminal text: verdict, bands per network, lost points by cause, open questions."""

from typing import IO

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.causes import SHORT_NAMES
from hvdprof.model.forecast import Forecast
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
from hvdprof.report.terminal.band_cells import (
    EFFICIENCY_HEAD,
    RATE_HEAD,
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
    limits = next((limit for limit in forecast.limits if limit.scenario == scenario), None)
    console.print()
    print_hanging(console, "", title_of(forecast, scenario), style=_TITLE)
    console.print(_bands(rows, forecast.question.target))
    if limits is not None:
        print_hanging(console, "", knee_of(limits))
    if price:
        title = f"Samples per unit of currency, at {price:g} per rank and hour"
        console.print(Text(f"\n{title}", style=_TITLE))
        console.print(_costs(rows, price))
    if len(forecast.scenarios) == 1:
        points = lost_points(forecast, scenario)
        if not points.empty:
            console.print(
                Text(
                    "\nLost points of efficiency by cause, means; gains are negative", style=_TITLE
                )
            )
            print_whole(console, _points(points))


def _bands(rows: pd.DataFrame, target: float) -> Table:
    heads = ["np\n(hosts)", EFFICIENCY_HEAD, RATE_HEAD, chance_head(target)]
    table = frame_of(heads, "limited by")
    for row in rows.to_dict("records"):
        table.add_row(
            f"{units.count(row['np'])}\n({units.count(row['num_hosts'])})",
            efficiency_cell(row),
            rate_cell(row),
            units.percent(row["meets_target"], 0),
            limited_by(row) or "no single cause",
        )
    return table


def _costs(rows: pd.DataFrame, price: float) -> Table:
    table = frame_of(["np", "samples per unit\nof currency\n(90 % band)"])
    for row in samples_per_currency(rows, price).to_dict("records"):
        table.add_row(units.count(row["np"]), rate_cell(row, "samples_per_currency"))
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
