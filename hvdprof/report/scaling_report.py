"""The scaling of somebody's table, in a terminal and as one JSON object."""

import json
import math
from typing import IO, Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.report.hanging_text import print_hanging

SCALING_SCHEMA_VERSION = 1


def render_scaling(
    scaling: pd.DataFrame, sentences: tuple[str, ...], stream: IO[str], *, width: int | None = None
) -> None:
    """Write a sentence and a table for every series of THROUGHPUT_SCALING."""
    console = Console(file=stream, width=width, highlight=False, emoji=False)
    groups = scaling.groupby("series", observed=True, sort=False)
    for number, ((series, members), sentence) in enumerate(zip(groups, sentences, strict=True)):
        if number:
            console.print()
        print_hanging(console, "", sentence, style="bold")
        console.print(Text(f"\n{str(series) or 'throughput'}", style="bold cyan"))
        console.print(_table(members))


def render_scaling_json(scaling: pd.DataFrame, sentences: tuple[str, ...], stream: IO[str]) -> None:
    """Write one indented JSON object and a newline: ``verdicts`` and the rows of the table."""
    rows = [
        {str(name): _plain(value) for name, value in row.items()}
        for row in scaling.to_dict("records")
    ]
    content = {
        "schema_version": SCALING_SCHEMA_VERSION,
        "verdicts": list(sentences),
        "throughput_scaling": rows,
    }
    json.dump(content, stream, indent=1, allow_nan=False, ensure_ascii=False)
    stream.write("\n")


def _table(members: pd.DataFrame) -> Table:
    frame = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False, border_style="dim")
    names = ("np", "repeats", "samples/s", "speed-up", "scaling\nefficiency", "serial fraction\n")
    for name in names:
        frame.add_column(name, justify="right", no_wrap=True)
    for row in members.to_dict("records"):
        frame.add_row(
            units.count(row["np"]),
            units.count(row["num_repeats"]),
            units.rate(row["samples_per_s"]),
            units.rate(row["speedup"]),
            units.percent_interval(
                row["efficiency"], row["efficiency_low"], row["efficiency_high"]
            ),
            units.percent(row["karp_flatt"], 2),
        )
    return frame


def _plain(value: Any) -> Any:
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
