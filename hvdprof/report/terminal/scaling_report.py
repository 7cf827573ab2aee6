"""The scaling of a user's table, in a terminal and as one JSON object.

Tested in ``tests/cli/test_scaling.py``.
"""

from typing import IO

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.standalone_files import ScalingOfText
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.terminal.hanging_text import print_hanging, print_verdict

SCALING_SCHEMA_VERSION = 2

_RATE = ["samples_per_s", "samples_per_s_low", "samples_per_s_high"]


def render_scaling(found: ScalingOfText, stream: IO[str], *, width: int | None = None) -> None:
    """Write a verdict, its caveat and a table for every series, then what was left out."""
    console = report_console(stream, width)
    groups = found.scaling.groupby("series", observed=True, sort=False)
    judged = zip(groups, found.verdicts, strict=True)
    for number, ((series, members), verdict) in enumerate(judged):
        if number:
            console.print()
        print_verdict(console, "", verdict.sentence, verdict.caveat)
        console.print(Text(f"\n{str(series) or 'throughput'}", style="bold cyan"))
        console.print(_table(members))
    for note in found.notes:
        print_hanging(console, "  ! ", note)


def render_scaling_json(found: ScalingOfText, stream: IO[str]) -> None:
    """Write one indented JSON object and a newline: verdicts and caveats, table rows, notes."""
    content: JsonObject = {
        "schema_version": SCALING_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "throughput_scaling": json_rows(found.scaling),
        "notes": json_value(found.notes),
    }
    write_json(content, stream)


def _table(members: pd.DataFrame) -> Table:
    frame = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    # Of repeats, the interval of a rate would push the others out of 80 columns.
    of_logs = members["num_repeats"].max() == 1
    columns = {
        "np": [units.count(size) for size in members["np"]],
        "repeats": [units.count(number) for number in members["num_repeats"]],
        "samples/s": [
            units.rate_interval(*row) if of_logs else units.rate(row[0])
            for row in members[_RATE].to_numpy()
        ],
        "speed-up": [
            units.rate_interval(*row)
            for row in members[["speedup", "speedup_low", "speedup_high"]].to_numpy()
        ],
        "scaling\nefficiency": [
            units.percent_interval(*row)
            for row in members[["efficiency", "efficiency_low", "efficiency_high"]].to_numpy()
        ],
        "serial fraction\n": [
            _fraction(*row)
            for row in members[["karp_flatt", "karp_flatt_low", "karp_flatt_high"]].to_numpy()
        ],
    }
    if members["samples_per_s"].isna().all():
        del columns["samples/s"]
    for name in columns:
        # A wide interval wraps: without its end it would say nothing.
        frame.add_column(name, justify="right", no_wrap=name in ("np", "repeats", "samples/s"))
    for row in zip(*columns.values(), strict=True):
        frame.add_row(*row)
    return frame


def _fraction(value: float, low: float, high: float) -> str:
    """A serial fraction; below 0 and above 1 there is no serial part that explains the speed-up."""
    if value < 0 or value > 1:
        return "not meaningful"
    return units.fraction_interval(value, low, high)
