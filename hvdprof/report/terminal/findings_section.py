"""Findings in a terminal: title, evidence, cost and potential gain, quote, action.

Tested in ``tests/report/terminal/test_terminal_report.py``.
"""

import pandas as pd
from rich.console import Console
from rich.text import Text

from hvdprof.report.finding_texts import FindingTexts, findings_texts
from hvdprof.report.terminal.hanging_text import print_hanging

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


def print_findings(console: Console, findings: pd.DataFrame) -> None:
    """Print rows of ``FINDINGS`` in their order below a heading; nothing where there are none."""
    if findings.empty:
        return
    console.print(Text("\nFindings", style="bold"))
    for finding in findings_texts(findings):
        _print_finding(console, finding)


def _print_finding(console: Console, finding: FindingTexts) -> None:
    style = _STYLES[finding.severity]
    print_hanging(console, "  ", f"{finding.weight}: {finding.title}", style=style)
    print_hanging(console, "    ", finding.evidence)
    if finding.figures:
        print_hanging(console, "    ", finding.figures)
    if finding.quote:
        print_hanging(console, "    | ", finding.quote, style="dim")
    if finding.action:
        print_hanging(console, "    > ", finding.action, style="cyan")
