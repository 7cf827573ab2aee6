"""The network between hosts, in a terminal and as one JSON object."""

from typing import IO

import pandas as pd

from hvdprof import units
from hvdprof.model.notes import texts
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import NETWORK_RULES
from hvdprof.model.tables.net_tables import NET_LINKS
from hvdprof.report.json_values import JsonObject, json_rows, json_value, write_json
from hvdprof.report.plain_console import report_console
from hvdprof.report.sections.network import LINK_HEADS, link_cells
from hvdprof.report.sections.section import Section
from hvdprof.report.terminal.findings_section import print_findings
from hvdprof.report.terminal.hanging_text import print_hanging
from hvdprof.report.terminal.section_text import print_section

NET_SCHEMA_VERSION = 2


def render_net(analysis: RunAnalysis, stream: IO[str], *, width: int | None = None) -> None:
    """Write a row for every pair of hosts and method, what was not measured, then findings.

    Args:
        analysis: Of a run whose network was measured, alone or before something else: of its
            findings those on links are written.
        stream: Where to.
        width: Columns to write for; those of the terminal, or 80, where not given.
    """
    console = report_console(stream, width)
    links = analysis.table(NET_LINKS.name)
    if links.empty:
        console.print("No network measurement here. Run `hvdprof net --hosts h1,h2`.")
    else:
        rows = tuple(link_cells(row) for row in links.to_dict("records"))
        print_section(console, Section("", "", "", LINK_HEADS, rows, note=_explained(links)))
    for note in analysis.run.notes:
        print_hanging(console, "  ! ", note.text)
    print_findings(console, _findings(analysis))


def render_net_json(analysis: RunAnalysis, stream: IO[str]) -> None:
    """Write one indented JSON object and a newline: rows of NET_LINKS, findings on them, notes."""
    content: JsonObject = {
        "schema_version": NET_SCHEMA_VERSION,
        "net_links": json_rows(analysis.table(NET_LINKS.name)),
        "findings": json_rows(_findings(analysis)),
        "notes": json_value(texts(analysis.run.notes)),
    }
    write_json(content, stream)


def _findings(analysis: RunAnalysis) -> pd.DataFrame:
    return analysis.findings[analysis.findings["id"].isin(NETWORK_RULES)]


def _explained(links: pd.DataFrame) -> str:
    smallest = units.byte_size(int(links["smallest_bytes"].min()))
    largest = units.byte_size(int(links["largest_bytes"].max()))
    return (
        f"latency: median of {smallest}; bandwidth: slope of time over sizes up to {largest}; 95 % "
        "intervals. TCP and Horovod: one way, half of the time there and back; allreduce: its "
        "whole time."
    )
