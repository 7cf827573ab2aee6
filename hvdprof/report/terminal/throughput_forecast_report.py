"""A forecast from throughputs alone, in a terminal, as JSON and as CSV.

Tested in ``tests/report/terminal/test_throughput_forecast_report.py``.
"""

from dataclasses import asdict
from typing import IO

import pandas as pd
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.results.forecast import NextSize, ThroughputForecast
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json
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

THROUGHPUT_FORECAST_SCHEMA_VERSION = 1


def render_throughput_forecast(
    found: ThroughputForecast, stream: IO[str], *, width: int | None = None
) -> None:
    """Write a verdict, its caveat and the bands of every series, then what was left out."""
    console = report_console(stream, width)
    next_sizes = {next_size.series: next_size for next_size in found.next_sizes}
    groups = found.rows.groupby("series", observed=True, sort=False)
    for number, ((name, rows), verdict) in enumerate(zip(groups, found.verdicts, strict=True)):
        if number:
            console.print()
        series = str(name)
        print_verdict(console, "", verdict.sentence, verdict.caveat)
        if series in next_sizes:
            print_hanging(console, "Next: ", next_step(next_sizes[series]))
        console.print(Text(f"\n{series or 'throughput'}", style="bold cyan"))
        measured = found.measured[found.measured["series"] == name]
        console.print(_table(measured, rows, found.target))
    for note in found.notes:
        print_hanging(console, "  ! ", note)


def render_throughput_forecast_json(found: ThroughputForecast, stream: IO[str]) -> None:
    """Write one indented JSON object and a newline; docs/howto/predict.md lists its keys."""
    write_json(throughput_forecast_json(found), stream)


def throughput_forecast_json(found: ThroughputForecast) -> JsonObject:
    """The object that holds a forecast: verdicts, rows, limits, what to measure next."""
    return {
        "schema_version": THROUGHPUT_FORECAST_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "target": found.target,
        "seed": found.seed,
        "throughput_forecast": json_rows(found.rows),
        "throughput_scaling": json_rows(found.measured),
        "limits": [json_value(asdict(limit)) for limit in found.limits],
        "measure_next": [json_value(asdict(next_size)) for next_size in found.next_sizes],
        "notes": json_value(found.notes),
    }


def render_throughput_forecast_csv(found: ThroughputForecast, stream: IO[str]) -> None:
    """Write the rows of THROUGHPUT_FORECAST, all digits kept."""
    found.rows.to_csv(stream, index=False, lineterminator="\n")


def next_step(following: NextSize) -> str:
    """What to measure next and what it gains."""
    before, after = (100 * band for band in (following.band_before, following.band_after))
    return (
        f"measure np={following.np} and add its row. The 90 % band on "
        f"{units.count(following.target_np)} ranks then narrows from {before:.0f} to about "
        f"{after:.0f} points."
    )


def _table(measured: pd.DataFrame, rows: pd.DataFrame, target: float) -> Table:
    with_rates = not rows["samples_per_s_p50"].isna().all()
    heads = ["np", EFFICIENCY_HEAD, *[RATE_HEAD] * with_rates, chance_head(target)]
    frame = frame_of(heads)
    for row in measured.to_dict("records"):
        cells = [units.count(row["np"]), f"{100 * row['efficiency']:.1f} measured"]
        cells += [units.rate(row["samples_per_s"])] * with_rates
        frame.add_row(*cells, "", style="dim")
    for row in rows.to_dict("records"):
        cells = [units.count(row["np"]), efficiency_cell(row), *[rate_cell(row)] * with_rates]
        frame.add_row(*cells, units.percent(row["meets_target"], 0))
    return frame
