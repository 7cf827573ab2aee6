"""The network between hosts: a page, and JSON."""

from functools import partial

import pandas as pd

from hvdprof import units
from hvdprof.model.notes import texts
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import NETWORK_RULES
from hvdprof.model.tables.net_tables import NET_LINKS
from hvdprof.report.answer import Answer
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.network import LINK_HEADS, link_cells
from hvdprof.report.sections.section import Page, Section

NET_SCHEMA_VERSION = 2
_NOTHING = "No network measurement here. Run `hvdprof net --hosts h1,h2`."


def net_answer(analysis: RunAnalysis) -> Answer:
    """A row for every pair of hosts and method, findings on links, and what was not measured.

    Args:
        analysis: Of a run whose network was measured, alone or before something else.
    """
    return Answer(partial(_page, analysis), partial(_object, analysis))


def _page(analysis: RunAnalysis) -> Page:
    links = analysis.table(NET_LINKS.name)
    rows = tuple(link_cells(row) for row in links.to_dict("records"))
    section = (
        Section(verdict=_NOTHING)
        if links.empty
        else Section(heads=LINK_HEADS, rows=rows, note=_explained(links))
    )
    return Page((section,), _findings(analysis), tuple(texts(analysis.run.notes)))


def _object(analysis: RunAnalysis) -> JsonObject:
    """Rows of NET_LINKS, findings on them, notes."""
    return {
        "schema_version": NET_SCHEMA_VERSION,
        "net_links": json_rows(analysis.table(NET_LINKS.name)),
        "findings": json_rows(_findings(analysis)),
        "notes": json_value(texts(analysis.run.notes)),
    }


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
