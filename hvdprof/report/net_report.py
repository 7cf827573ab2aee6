"""The network between hosts, in a terminal and as one JSON object."""

import json
import math
from collections.abc import Sequence
from typing import IO, Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.report.hanging_text import print_hanging
from hvdprof.report.network_section import NET_HEADS, net_row

NET_SCHEMA_VERSION = 1


def render_net(links: pd.DataFrame, notes: Sequence[str], stream: IO[str]) -> None:
    """Write a row for every pair of hosts and method, then what was not measured.

    Args:
        links: NET_LINKS.
        notes: What is missing.
        stream: Where to.
    """
    console = Console(file=stream, highlight=False, emoji=False)
    if links.empty:
        console.print("No measurement of a network here.")
    else:
        console.print(_table(links))
        console.print(Text(_explained(links), style="dim"), soft_wrap=True)
    for note in notes:
        print_hanging(console, "  ! ", note)


def render_net_json(links: pd.DataFrame, notes: Sequence[str], stream: IO[str]) -> None:
    """Write one indented JSON object and a newline: the rows of NET_LINKS, and notes."""
    rows = [
        {str(name): _plain(value) for name, value in row.items()}
        for row in links.to_dict("records")
    ]
    content = {"schema_version": NET_SCHEMA_VERSION, "net_links": rows, "notes": list(notes)}
    json.dump(content, stream, indent=1, allow_nan=False, ensure_ascii=False)
    stream.write("\n")


def _table(links: pd.DataFrame) -> Table:
    frame = Table(
        box=box.HORIZONTALS,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        border_style="dim",
    )
    over, between, *numbers = NET_HEADS[:4]
    frame.add_column(over)
    frame.add_column(between, overflow="fold")
    for name in numbers:
        frame.add_column(name, justify="right", no_wrap=True)
    for row in links.to_dict("records"):
        texts = net_row(row)
        frame.add_row(texts.over, texts.between, texts.latency, texts.bandwidth)
    return frame


def _explained(links: pd.DataFrame) -> str:
    smallest = units.byte_size(int(links["smallest_bytes"].min()))
    largest = units.byte_size(int(links["largest_bytes"].max()))
    return (
        f"latency: median of {smallest}; bandwidth: slope of time over sizes up to {largest}; 95 % "
        "intervals.\nTCP and Horovod: one way, half of the time there and back; allreduce: its "
        "whole time."
    )


def _plain(value: Any) -> Any:
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
