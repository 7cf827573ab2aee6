"""Findings as people read them in a terminal: what, the line that shows it, what to do."""

import pandas as pd
from rich.console import Console
from rich.text import Text

from hvdprof.report.hanging_text import print_hanging


def print_findings(console: Console, findings: pd.DataFrame) -> None:
    """Print rows of ``FINDINGS`` in their order below a heading; nothing where there are none."""
    if findings.empty:
        return
    console.print(Text("\nFindings", style="bold"))
    for row in findings.to_dict("records"):
        print_hanging(console, f"  {row['severity']}: ", str(row["sentence"]))
        if row["evidence"]:
            where = "" if pd.isna(row["line"]) else f"{row['file']}:{int(row['line'])}: "
            print_hanging(console, "    | ", where + str(row["evidence"]), style="dim")
        if row["remedy"]:
            print_hanging(console, "    > ", str(row["remedy"]))
