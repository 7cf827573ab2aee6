"""Findings as people read them in a terminal: what, the line that shows it, what to do."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from hvdprof import units
from hvdprof.report.terminal.hanging_text import print_hanging

_SMALLEST_TOLD = 0.0005
"""Less would be told as 0.0 %."""


def print_findings(console: Console, findings: pd.DataFrame) -> None:
    """Print rows of ``FINDINGS`` in their order below a heading; nothing where there are none."""
    if findings.empty:
        return
    console.print(Text("\nFindings", style="bold"))
    for row in findings.to_dict("records"):
        print_hanging(console, f"  {row['severity']}: ", str(row["sentence"]) + ceiling_of(row))
        if row["evidence"]:
            where = "" if pd.isna(row["line"]) else f"{row['file']}:{int(row['line'])}: "
            print_hanging(console, "    | ", where + str(row["evidence"]), style="dim")
        if row["remedy"]:
            print_hanging(console, "    > ", str(row["remedy"]))


def ceiling_of(row: Mapping[Hashable, Any]) -> str:
    """What mending it gives back at most, as a sentence; empty where that is not known."""
    share = row["ceiling_share"]
    if pd.isna(share) or share < _SMALLEST_TOLD:
        return ""
    return f" Mended, a step would take at most {units.percent(float(share))} less."
