"""What was found, worst first: what it costs, what mending it gives back, and how to mend it."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import dash_mantine_components as dmc
import pandas as pd

from hvdprof import units
from hvdprof.dashboards.components.copied_text import copied_text
from hvdprof.model.cell_key import short_name
from hvdprof.report.terminal.findings_section import ceiling_of

_FIRST = 8


Look = Callable[[str, int, str], Any]


def finding_list(findings: pd.DataFrame, look: Look) -> list[Any]:
    """A card for each of the first findings, and the others behind one heading.

    Args:
        findings: Rows of ``FINDINGS`` in the order in which they are to be read.
        look: The link from a model, a number of ranks and an engine to the events behind what is
            said of them; ``None`` where there are none.
    """
    cards = [_card(row, look) for row in findings.to_dict("records")]
    if len(cards) <= _FIRST:
        return cards
    more = dmc.Accordion(
        dmc.AccordionItem(
            [
                dmc.AccordionControl(f"{units.count(len(cards) - _FIRST)} more"),
                dmc.AccordionPanel(dmc.Stack(cards[_FIRST:], gap="sm")),
            ],
            value="more",
        )
    )
    return [*cards[:_FIRST], more]


def _card(row: Mapping[Hashable, Any], look: Look) -> dmc.Paper:
    severity = str(row["severity"])
    head = dmc.Group(
        [
            dmc.Badge(severity, variant="outline", className=f"severity severity-{severity}"),
            dmc.Text(_cost(row), size="sm", className="about"),
        ],
        gap="xs",
    )
    parts: list[Any] = [head, dmc.Text(str(row["sentence"]) + ceiling_of(row))]
    if row["evidence"]:
        where = "" if pd.isna(row["line"]) else f"{row['file']}:{int(row['line'])}: "
        parts.append(dmc.Code(where + str(row["evidence"]), block=True, className="keep-lines"))
    if row["remedy"]:
        remedy = str(row["remedy"])
        parts.append(
            copied_text(remedy, dmc.Text(remedy, fw=600, size="sm", className="keep-lines"))
        )
    link = look(*_cell(row)) if _is_of_cell(row) else None
    if link is not None:
        parts.append(link)
    return dmc.Paper(dmc.Stack(parts, gap=6), withBorder=True, p="sm", radius="sm")


def _cost(row: Mapping[Hashable, Any]) -> str:
    where = short_name(*_cell(row)) if _is_of_cell(row) else ""
    cost = ""
    if not pd.isna(row["cost_ns"]):
        cost = f"costs {units.milliseconds(row['cost_ns'])} a step"
        if not pd.isna(row["cost_share"]):
            cost += f" ({units.percent(row['cost_share'])})"
    return ", ".join(text for text in (str(row["confidence"]), where, cost) if text)


def _cell(row: Mapping[Hashable, Any]) -> tuple[str, int, str]:
    return str(row["model"]), int(row["np"]), str(row["engine"])


def _is_of_cell(row: Mapping[Hashable, Any]) -> bool:
    return bool(row["model"]) and not pd.isna(row["np"])
