"""``hvdprof doctor``: what works on this machine, what does not, and how to fix it."""

import dataclasses
import json
import sys
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import __version__, api
from hvdprof.errors import EnvironmentNotReadyError

# Counts up when a key of the JSON object changes its meaning or is removed.
JSON_SCHEMA_VERSION = 3

_STYLES = {"found": "green", "missing": "dim", "unset": "yellow", "risk": "bold yellow"}

_WITHOUT_HOROVOD = "\nWithout it: hvdprof bench --engine ddp, and hvdprof run with scripts of DDP."


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object instead."),
) -> None:
    """Check this machine: what works, what does not, and the command that fixes it.

    The exit code is 0 where `hvdprof bench` can run, and 5 where it cannot.
    """
    report = api.check_machine()
    if as_json:
        text = json.dumps(as_record(report), indent=1, ensure_ascii=False)
        sys.stdout.write(text + "\n")
    else:
        console, shown = Console(), shown_findings(report.findings)
        sys.stdout.write(verdict(report.findings) + "\n\n")
        if console.is_terminal:
            console.print(_table(shown))
        else:
            sys.stdout.write("".join(line + "\n" for line in as_lines(shown)))
    if not report.can_bench:
        raise typer.Exit(EnvironmentNotReadyError.exit_code)


def verdict(findings: Sequence["api.Finding"]) -> str:
    """The first line: whether `hvdprof bench` can run, what disturbs it, or what to do first."""
    stopping = [finding for finding in findings if finding.stops_bench]
    if not stopping:
        disturbing = [finding.disturbs_bench for finding in findings if finding.disturbs_bench]
        but = f", but {' and '.join(disturbing)} will disturb it" if disturbing else ""
        return f"hvdprof bench can run here{but}."
    titles = ", ".join(finding.title for finding in stopping)
    without = _WITHOUT_HOROVOD if [finding.name for finding in stopping] == ["horovod"] else ""
    return f"hvdprof bench cannot run here: {titles}. First: {stopping[0].fix}{without}"


def shown_findings(findings: Sequence["api.Finding"]) -> list["api.Finding"]:
    """The findings for a reader: without GPUs there is no line on the links between them."""
    has_gpus = any(finding.name == "gpus" and finding.state != "missing" for finding in findings)
    return [finding for finding in findings if has_gpus or finding.name != "topology"]


def as_lines(findings: Sequence["api.Finding"]) -> list[str]:
    """The findings as plain lines, each fix on a line of its own."""
    width = max((len(finding.title) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.title:<{width}}  {finding.detail}")
        if finding.fix:
            lines.append(f"{'':<8} {'':<{width}}  -> {finding.fix}")
    return lines


def as_record(report: "api.MachineReport") -> dict[str, object]:
    """The object that ``--json`` prints; docs/howto/doctor.md documents its keys."""
    return {
        "schema_version": JSON_SCHEMA_VERSION,
        "hvdprof_version": __version__,
        "can_bench": report.can_bench,
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
        "facts": report.facts,
    }


def _table(findings: Sequence["api.Finding"]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        detail = Text(finding.detail)
        if finding.fix:
            detail.append(f"\n-> {finding.fix}", style="cyan")
        table.add_row(Text(finding.state, style=_STYLES[finding.state]), finding.title, detail)
    return table
