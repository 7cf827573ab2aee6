"""``hvdprof doctor``: what works on this machine, what does not, and what mends it."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import __version__
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.doctor.check_result import Finding, State
from hvdprof.machine.doctor.checks import can_bench, findings_of
from hvdprof.machine.doctor.survey import Survey, take_survey

# Counts up when a key of the JSON object changes its meaning or goes.
JSON_SCHEMA_VERSION = 1

_STYLES = {State.FOUND: "green", State.MISSING: "dim", State.TRAP: "bold yellow"}


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead."),
) -> None:
    """Say what works on this machine, what does not, and the command that mends it.

    The exit code is 0 where `hvdprof bench` can run, and 5 where it cannot.
    """
    survey = take_survey()
    findings = findings_of(survey)
    if as_json:
        text = json.dumps(as_record(survey, findings), indent=1, ensure_ascii=False)
        sys.stdout.write(text + "\n")
    else:
        console = Console()
        if console.is_terminal:
            console.print(_table(findings))
        else:
            sys.stdout.write("".join(line + "\n" for line in as_lines(findings)))
        sys.stdout.write(verdict(findings) + "\n")
    if not can_bench(findings):
        raise typer.Exit(EnvironmentNotReadyError.exit_code)


def verdict(findings: Sequence[Finding]) -> str:
    """The last line: whether `hvdprof bench` can run, and if not, what to do first."""
    stopping = [finding for finding in findings if finding.stops_bench]
    if not stopping:
        return "hvdprof bench can run here."
    titles = ", ".join(finding.title for finding in stopping)
    return f"hvdprof bench cannot run here: {titles}. First: {stopping[0].fix}"


def as_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings as plain lines, the fix on a line of its own."""
    width = max((len(finding.title) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.title:<{width}}  {finding.detail}")
        if finding.fix:
            lines.append(f"{'':<8} {'':<{width}}  -> {finding.fix}")
    return lines


def as_record(survey: Survey, findings: Sequence[Finding]) -> dict[str, Any]:
    """The object that ``--json`` prints; its keys are documented in docs/howto/doctor.md."""
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "hvdprof_version": __version__,
        "can_bench": can_bench(findings),
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "facts": _without_paths(dataclasses.asdict(survey)),
    }


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        detail = Text(finding.detail)
        if finding.fix:
            detail.append(f"\n-> {finding.fix}", style="cyan")
        table.add_row(Text(finding.state, style=_STYLES[finding.state]), finding.title, detail)
    return table


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(item) for item in value]
    return str(value) if isinstance(value, Path) else value
